"""Clients of a fleet: device, place, samples and owner's habits; pure in time.

A `Fleet` joins devices, channel, people and batteries of N clients in arrays, and returns what a
client experiences at any moment. It holds nothing that changes during a run. Every assignment is
drawn from an addressed stream, so it depends on the scenario's seed alone: not on the selector,
and (except for the exact device counts) not on N.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fleetsim import rng
from fleetsim.contracts import FloatArray, IntArray, ModelCost, Work, WorkKind
from fleetsim.counts import Batching
from fleetsim.errors import ScenarioError
from fleetsim.fleet.batteries.assignment import assign_batteries
from fleetsim.fleet.batteries.base import Batteries
from fleetsim.fleet.devices.assignment import assign_hardware, file_names, load_devices
from fleetsim.fleet.devices.compute import lay_out_computations, steps_done, unloaded_s
from fleetsim.fleet.devices.hardware_files import HardwareFiles
from fleetsim.fleet.devices.memory import FreeMemory, build_memory
from fleetsim.fleet.devices.profile import DeviceProfile
from fleetsim.fleet.devices.uncertainty import DrawnFigure
from fleetsim.fleet.network.access import Access
from fleetsim.fleet.network.channel import Channel, build_channel
from fleetsim.fleet.network.channels import ChannelSettings
from fleetsim.fleet.network.direction import Direction
from fleetsim.fleet.network.fleet_radios import Radios, build_radios, cellular_radio, radios_in_use
from fleetsim.fleet.network.wifi_or_cellular import (
    AS_RECORDED,
    can_be_on,
    forced_networks,
    in_force,
)
from fleetsim.fleet.settings import FleetSettings
from fleetsim.fleet.throttle import Throttle, build_throttle
from fleetsim.fleet.timeline import Timelines
from fleetsim.fleet.usage.loading import load_trace, users_of_owners
from fleetsim.fleet.usage.usage import Usage, assign_time_zones, build_usage
from fleetsim.units import S_PER_HOUR


def places_m(channel: ChannelSettings, *, seed: int, size: int) -> FloatArray | None:
    """Return clients' places, with the antenna at the origin [N, 2]; None without distances.

    Distances are the channel's. Directions are drawn here; no rate depends on them.
    """
    distance_m = channel.distances_m(seed=seed, size=size)
    return None if distance_m is None else _places(distance_m, seed)


def _places(distance_m: FloatArray, seed: int) -> FloatArray:
    turn = 2.0 * np.pi * rng.stream(seed, "position/direction").random(distance_m.size)
    position_m: FloatArray = distance_m[:, np.newaxis] * np.array([np.cos(turn), np.sin(turn)]).T
    position_m.flags.writeable = False
    return position_m


@dataclass(frozen=True, slots=True)
class Fleet:
    """N clients and their world; see the module's docstring."""

    seed: int
    profiles: tuple[DeviceProfile, ...]
    device: IntArray
    """Index into `profiles` of every client [N]."""
    unit_speed: FloatArray
    """Speed of every client's device over that of its profile [N]."""
    num_samples: IntArray
    """Training samples of every client [N]."""
    num_evaluated: IntArray
    """Samples on which every client evaluates models [N]."""
    access: Access
    usage: Usage
    batteries: Batteries
    initial_j: FloatArray
    """Battery level at time 0 [N]; NaN where the device is mains powered."""
    crash_per_hour: float
    throttle: Throttle
    device_figures: tuple[DrawnFigure, ...] = ()
    """Figures of devices and radios in use of which an error was drawn."""
    memory: FreeMemory | None = None
    """Free memory of the clients; None: it is not checked."""

    @property
    def size(self) -> int:
        """Number of clients N."""
        return int(self.device.size)

    @property
    def channel(self) -> Channel:
        """Rates of the clients' links."""
        return self.access.channel

    @property
    def radios(self) -> Radios:
        """Radios of the clients."""
        return self.access.radios

    def profile(self, client: int) -> DeviceProfile:
        """Hardware of a client."""
        return self.profiles[int(self.device[client])]

    def conv_flop_per_s(self, client: int) -> float:
        """Return the rate of convolutions of a client's own unit while it trains."""
        return self.profile(client).compute.conv_flop_per_s * float(self.unit_speed[client])

    def samples_for(self, work: Work) -> IntArray:
        """Return the samples of every client that this kind of work uses [N]."""
        return self.num_evaluated if work.kind is WorkKind.EVALUATE else self.num_samples

    def epoch_s(self, client: int, cost: ModelCost, batching: Batching) -> float:
        """Return seconds of one epoch of a client's own unit while nothing slows it."""
        seconds = unloaded_s(
            self.profile(client).compute,
            cost,
            Work(WorkKind.TRAIN, epochs=1),
            num_samples=self.num_samples[client : client + 1],
            batching=batching,
        )
        return float(seconds[0] / self.unit_speed[client])

    def rate_at(self, client: int, direction: Direction, t_s: float) -> float:
        """Return the rate in bit/s of a client's link at a moment, without shared links."""
        radio = self.radios_at(np.array([client]), np.array([t_s]))[0]
        on_wifi = bool(self.radios.is_wifi[radio])
        return self.channel.rate_at(client, direction, t_s, on_wifi=on_wifi)

    @property
    def position_m(self) -> FloatArray | None:
        """Places of the clients, as `places_m` returns them."""
        cell = self.channel.cell
        if cell is None or cell.distance_m is None:
            return None
        return _places(cell.distance_m, self.seed)

    def radios_at(self, clients: IntArray, t_s: FloatArray) -> IntArray:
        """Return radios (indices in `radios`) of transfers of clients that start at t, all [n]."""
        device, radios = self.device[clients], self.radios
        is_unmetered = self.usage.is_unmetered_at(clients, t_s)
        return np.where(is_unmetered, radios.unmetered[device], radios.metered[device])

    def computations(
        self,
        clients: IntArray,
        start_s: FloatArray,
        condition: FloatArray,
        cost: ModelCost,
        work: Work,
        batching: Batching,
        *,
        left_s: FloatArray | None = None,
        matters_until_s: FloatArray | None = None,
    ) -> Timelines:
        """Lay out the same work of clients [n], progress in unloaded seconds.

        It begins at `start_s` [n] in a condition [n, c] (`Throttle`). Of work that was begun before
        `left_s` unloaded seconds [n] remain; None: all of it. A timeline must be exact up to
        `matters_until_s` [n] (`lay_out_computations`).
        """
        device, num_samples = self.device[clients], self.samples_for(work)[clients]
        seconds, power_w = np.empty(clients.size), np.empty(clients.size)
        for index in set(device.tolist()):
            profile, rows = self.profiles[index], device == index
            power_w[rows] = profile.power.train_above_idle_w
            seconds[rows] = unloaded_s(
                profile.compute, cost, work, num_samples=num_samples[rows], batching=batching
            )
        seconds /= self.unit_speed[clients]
        return lay_out_computations(
            start_s,
            seconds if left_s is None else left_s,
            power_w,
            lambda rows, t_s: self.usage.load_after(clients[rows], t_s),
            self.throttle.paces(clients, condition, start_s, work.clock_fraction),
            matters_until_s,
        )

    def steps_done(
        self, clients: IntArray, cost: ModelCost, work: Work, batching: Batching, share: FloatArray
    ) -> IntArray:
        """Return the whole SGD steps in this share [n] of the training of clients [n]."""
        device, num_samples = self.device[clients], self.num_samples[clients]
        steps = np.empty(clients.size, dtype=np.int64)
        for index in set(device.tolist()):
            rows = device == index
            steps[rows] = steps_done(
                self.profiles[index].compute,
                cost,
                work,
                num_samples=num_samples[rows],
                batching=batching,
                share=share[rows],
            )
        return steps

    def crash_at_s(self, client: int, start_s: float, *address: int) -> float:
        """Return when a task of this address that starts at `start_s` crashes."""
        draw = rng.stream(self.seed, "crash", client, *address).exponential()
        return start_s + float(draw) * S_PER_HOUR / self.crash_per_hour


def paired_users(settings: FleetSettings, files: HardwareFiles | None = None) -> set[str] | None:
    """Return the users whose owners' data may be used (`fleet.usage.pair`); None: those of any."""
    if settings.usage.pair is None:
        return None
    profiles = [p for name in settings.assigned_devices for p in load_devices(name, files=files)]
    if not settings.has_usage(profiles):
        return None
    trace = load_trace(settings.usage, seed=0)
    assert trace is not None  # `pair` without a trace is refused
    return set(trace.user_ids)


def build_fleet(
    settings: FleetSettings,
    *,
    seed: int,
    num_samples: IntArray,
    num_evaluated: IntArray | None = None,
    files: HardwareFiles | None = None,
    owners: Sequence[str] | None = None,
) -> Fleet:
    """Draw the fleet of a scenario.

    Every client trains on `num_samples` [N] and evaluates models on `num_evaluated` [N], which are
    the same if not given. Device and radio `files` that are not given are read now.
    `owners` are the names of the people whose data the clients have [N], for `fleet.usage.pair`.
    """
    files = files or HardwareFiles()
    hardware = assign_hardware(
        settings.devices,
        unit_spread_sigma=settings.unit_spread_sigma,
        size=settings.size,
        seed=seed,
        files=files,
    )
    profiles, device = hardware.profiles, hardware.device
    errors = settings.uncertainty.errors(seed)
    if errors is not None:
        # Clients get their devices and units by the figures as sourced, whatever the errors.
        files = files.with_errors(errors)
        profiles = tuple(p for name in settings.devices for p in load_devices(name, files=files))
    has_people = np.array([p.kind in settings.usage.kinds for p in profiles])[device]
    wired_bit_per_s = np.array([p.wired_bit_per_s for p in profiles], dtype=np.float64)[device]
    is_wired = ~np.isnan(wired_bit_per_s)
    names = [file for name in settings.devices for file in file_names(name)]
    has_usage = settings.has_usage(profiles[index] for index in np.unique(device))
    network = in_force(settings.network, has_usage=has_usage)
    forced_network = forced_networks(network, seed=seed, is_wired=is_wired)
    trace = load_trace(settings.usage, seed=seed)
    user_of: IntArray | None = None
    if settings.usage.pair is not None and has_usage:
        if owners is None or trace is None:
            raise ScenarioError(
                "fleet.usage.pair = 'owner': the data set has no people of its own; name one that"
                " has, with task.partition.kind = 'natural', or leave pair out"
            )
        user_of = users_of_owners(trace.user_ids, owners)
    usage = build_usage(
        trace,
        seed=seed,
        has_people=has_people,
        shift=settings.usage.shift,
        starts_at_s=settings.usage.starts_at_s
        + assign_time_zones(settings.usage.time_zones, seed=seed, size=settings.size),
        forced_network=None if (forced_network == AS_RECORDED).all() else forced_network,
        user_of=user_of,
    )
    has_wifi, has_cellular = can_be_on(network, has_usage=has_usage)
    channel = build_channel(
        settings.channel,
        seed=seed,
        size=settings.size,
        wired_bit_per_s=wired_bit_per_s,
        wifi=settings.wifi if has_wifi else None,
        radio=cellular_radio(settings.channel, files),
        multiple=settings.heterogeneity.bandwidth_multiples(seed=seed, size=settings.size),
    )
    access = Access(
        channel=channel,
        radios=build_radios(
            settings.channel, profiles, top_wifi_bit_per_s=settings.wifi.top_bit_per_s, files=files
        ),
        transport=settings.transport,
        shared=None
        if settings.shared_links is None
        else settings.shared_links.build(
            seed=seed,
            wired_bit_per_s=wired_bit_per_s,
            modem=None if channel.cell is None else channel.cell.modem,
        ),
    )
    radios = radios_in_use(
        settings.channel,
        has_wired=bool(is_wired.any()),
        has_unmetered=has_wifi and not is_wired.all(),
        has_metered=has_cellular and not is_wired.all(),
    )
    batteries, initial_j = assign_batteries(
        settings.battery, profiles=profiles, device=device, usage=usage, seed=seed
    )
    return Fleet(
        seed=seed,
        profiles=profiles,
        device=device,
        unit_speed=hardware.unit_speed
        * settings.heterogeneity.speed_multiples(seed=seed, size=settings.size),
        num_samples=num_samples,
        num_evaluated=num_samples if num_evaluated is None else num_evaluated,
        access=access,
        usage=usage,
        batteries=batteries,
        initial_j=initial_j,
        crash_per_hour=settings.crash_per_hour,
        throttle=build_throttle(settings.thermal, profiles=profiles, device=device, usage=usage),
        device_figures=(
            *(
                drawn
                for index in np.unique(device)
                for drawn in files.drawn("devices", names[index])
            ),
            *(drawn for name in radios for drawn in files.drawn("radios", name)),
        ),
        memory=build_memory(settings.memory, profiles=profiles, device=device, seed=seed),
    )
