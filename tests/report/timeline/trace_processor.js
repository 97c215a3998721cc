// Runs the trace processor of Perfetto's page in Node: sends it the requests of a file, and writes
// its answers to another.
//
//     node trace_processor.js FOLDER REQUESTS ANSWERS
//
// FOLDER is that of the page, with engine_bundle.js and trace_processor*.wasm. The bundle is a worker
// that loads the engine at once, by a request that does not return before.
const fs = require("fs");
const path = require("path");
const vm = require("vm");

const [folder, requests, answers] = process.argv.slice(2);
class XMLHttpRequest {
  open(method, url) {
    this.file = path.join(folder, path.basename(url));
  }
  send() {
    this.response = fs.readFileSync(this.file);
  }
}
const location = { href: "https://localhost/engine_bundle.js" };
const worker = { location };
const context = vm.createContext({
  self: worker, location, WorkerGlobalScope: Object, importScripts() {}, XMLHttpRequest,
  console: { log() {}, info() {}, warn() {}, error() {} },
  performance, setTimeout, TextDecoder, TextEncoder, URL, crypto: globalThis.crypto,
});
vm.runInContext(fs.readFileSync(path.join(folder, "engine_bundle.js"), "utf8"), context);

const out = fs.openSync(answers, "w");
const port = { postMessage: (data) => fs.writeSync(out, data) };
worker.onmessage({ data: port });

const Bytes = vm.runInContext("Uint8Array", context);
setTimeout(() => {
  port.onmessage({ data: new Bytes(fs.readFileSync(requests)) });
  process.exit(0);
}, 0);
