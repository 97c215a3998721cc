// Scores of Sphinx's search, and what each part of the site adds: pages for users stand before
// those on reasons and measurements, which have as many words in common with a question.
var Scorer = {
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
  places: [
    [/^(how-to|learn)\//, 4],
    [/^glossary$/, 3],
    [/^(studies-on-clusters|flower|trackers)$/, 4],
    [/^(decisions|develop|evidence|validation)\/|^(architecture|validation|papers|benchmarks)$/, -20],
  ],
  score: ([place, , , , score]) =>
    Scorer.places.reduce((sum, [part, more]) => sum + (part.test(place) ? more : 0), score),
};
