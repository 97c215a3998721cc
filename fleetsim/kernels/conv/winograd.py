"""Convolutions of 3 x 3 by Winograd's algorithm F(4 x 4, 3 x 3), with a quarter of the products.

A tile of 6 x 6 pixels x gives 4 x 4 of the output, by products of 36 numbers instead of 144 (Lavin,
Gray, "Fast algorithms for convolutional neural networks", CVPR 2016, section 4): with the kernel g,

    y = A^T [(G g G^T) * (B^T x B)] A,

where * is elementwise; over all channels it is 36 matrix products. Its derivatives are
the same steps in reverse: with s the gradient by y and S = A s A^T, that of G g G^T is the sum over
all tiles of S * (B^T x B), and that of x is B [(G g G^T) * S] B^T.

A, B and G follow from the points at which polynomials are evaluated: 0, +-1/sqrt(2), +-sqrt(2) and
infinity. The rounding error is a third to a half of that at 0, +-1, +-2 and infinity: in float32
0.5e-6 to 1.2e-6 for products over 64 to 256 channels, while torch's is 0.2e-6 to 0.4e-6. A number
that is not finite affects all pixels of its tiles. The sums that convert maps to tiles and back are
loops that numba compiles, over one row of tiles and all channels at a time.
"""

from collections.abc import Iterator
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import pad

from fleetsim.kernels.conv.tiles import TILE, num_tiles
from fleetsim.kernels.cpu.compiled import compiled
from fleetsim.kernels.cpu.workspace import Workspace

_Array = NDArray[Any]
_SIDE = TILE + 2
"""Pixels of the padded map under a tile, in both directions."""
_NEAR, _FAR = 0.5**0.5, 2.0**0.5
"""Points at which polynomials are evaluated, besides 0 and infinity."""
_G = torch.tensor(
    [
        [1.0, 0.0, 0.0],
        [-1 / 1.5, -_NEAR / 1.5, -0.5 / 1.5],
        [-1 / 1.5, _NEAR / 1.5, -0.5 / 1.5],
        [1 / 6, _FAR / 6, 2 / 6],
        [1 / 6, -_FAR / 6, 2 / 6],
        [0.0, 0.0, 1.0],
    ],
    dtype=torch.float64,
)
PART_BYTE = 2_000_000
"""Bytes of a part's tiles, in float32."""
_FLOAT_BYTE = 4


class WinogradConv2d(nn.Module):
    """Layer equal to an `nn.Conv2d`, whose weights it shares; fastest on channels-last maps."""

    def __init__(self, conv: nn.Conv2d, space: Workspace) -> None:
        """Replace a plain convolution on the CPU, of 3 x 3 and stride 1; compile before a fork.

        The memory `space` is for one convolution at a time.
        """
        super().__init__()
        self.weight = conv.weight
        self.bias = conv.bias
        self._padding = conv.padding
        self._space = space
        _compile(conv.weight.dtype)

    def forward(self, maps: Tensor) -> Tensor:
        """Map [n, C, H, W] to [n, C', H', W'] in channels-last layout."""
        result: Tensor = _Winograd.apply(  # type: ignore[no-untyped-call]
            maps, self.weight, self.bias, self._padding, self._space
        )
        return result


class _Winograd(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        maps: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        padding: tuple[int, int],
        space: Workspace,
    ) -> Tensor:
        num_samples, _, height, width = maps.shape
        rows, columns = (side + 2 * p - 2 for side, p in zip((height, width), padding, strict=True))
        down, across = num_tiles(rows), num_tiles(columns)
        kernels = _kernels(weight)
        result = maps.new_empty(num_samples, TILE * down, TILE * across, len(weight))
        for part, target in _parts(down * across, kernels, maps, result):
            tiles = _tiles(_padded(part, padding, space), space)
            product = space.take("winograd outputs", (*tiles.shape[:2], len(weight)), part)
            torch.bmm(tiles, kernels, out=product)
            band = space.take("winograd band", (_SIDE, target[0, 0].numel()), part)
            _to_maps(product.numpy(), band.numpy(), target.flatten(2).numpy())
        if bias is not None:
            result += bias
        # Tiles and kernels are recomputed: keeping them doubles the memory and saves little time.
        ctx.save_for_backward(maps, weight)
        ctx.space, ctx.padding = space, padding
        return result[:, :rows, :columns].permute(0, 3, 1, 2)

    @staticmethod
    def backward(
        ctx: Any, gradient: Tensor
    ) -> tuple[Tensor | None, Tensor | None, Tensor | None, None, None]:
        maps, weight = ctx.saved_tensors
        space: Workspace = ctx.space
        needs_maps, needs_weight, needs_bias, *_ = ctx.needs_input_grad
        rows, columns = gradient.shape[2:]
        down, across = num_tiles(rows), num_tiles(columns)
        kernels = _kernels(weight)
        _, num_in, num_out = kernels.shape
        missing = (0, 0, 0, TILE * across - columns, 0, TILE * down - rows)
        gradients = gradient.permute(0, 2, 3, 1)
        gradients = (pad(gradients, missing) if any(missing) else gradients).contiguous()
        for_kernels = torch.zeros_like(kernels)
        for_maps = torch.empty_like(maps) if needs_maps else None
        (above, left), (height, width) = ctx.padding, maps.shape[2:]
        sides = _parts(
            down * across, kernels, maps, gradients, maps if for_maps is None else for_maps
        )
        for part, band_gradients, target in sides:
            num = len(part) * down * across
            padded = _padded(part, ctx.padding, space)
            band = space.take("winograd band", (_SIDE, band_gradients[0, 0].numel()), part)
            outputs = space.take("winograd outputs", (_SIDE**2, num, num_out), part)
            _from_gradients(band_gradients.flatten(2).numpy(), band.numpy(), outputs.numpy())
            if needs_weight:
                for_kernels.baddbmm_(_tiles(padded, space).transpose(1, 2), outputs)
            if needs_maps:
                inputs = space.take("winograd tiles", (_SIDE**2, num, num_in), part)
                torch.bmm(outputs, kernels.transpose(1, 2), out=inputs)
                band = space.take("winograd band", (_SIDE, padded[0, 0].numel()), part)
                _add_to_maps(inputs.numpy(), band.numpy(), padded.zero_().flatten(2).numpy())
                kept = padded[:, above : above + height, left : left + width]
                target.copy_(kept.permute(0, 3, 1, 2))
        for_weight = _of_kernels(for_kernels) if needs_weight else None
        for_bias = gradient.sum(dim=(0, 2, 3)) if needs_bias else None
        return for_maps, for_weight, for_bias, None, None


def _padded(maps: Tensor, padding: tuple[int, int], space: Workspace) -> Tensor:
    """Reshape [n, C, H, W] to [n, rows, columns, C], padded with zeros to whole tiles."""
    (above, left), (num, channels, height, width) = padding, maps.shape
    rows, columns = (
        TILE * num_tiles(side + 2 * p - 2) + 2 for side, p in ((height, above), (width, left))
    )
    padded = space.take("winograd padded", (num, rows, columns, channels), maps).zero_()
    padded[:, above : above + height, left : left + width] = maps.permute(0, 2, 3, 1)
    return padded


def _parts(tiles_of_one: int, kernels: Tensor, *maps: Tensor) -> Iterator[tuple[Tensor, ...]]:
    sample_byte = _FLOAT_BYTE * tiles_of_one * _SIDE**2 * max(kernels.shape[1:])
    size = max(1, PART_BYTE // sample_byte)
    return zip(*(torch.split(each, size) for each in maps), strict=True)


def _tiles(padded: Tensor, space: Workspace) -> Tensor:
    """Return B^T x B of all tiles [36, tiles, C] of padded maps [n, rows, columns, C]."""
    num_samples, rows, columns, num_in = padded.shape
    num = num_samples * ((rows - 2) // TILE) * ((columns - 2) // TILE)
    tiles = space.take("winograd tiles", (_SIDE**2, num, num_in), padded)
    band = space.take("winograd band", (_SIDE, columns * num_in), padded)
    _from_maps(padded.flatten(2).numpy(), band.numpy(), tiles.numpy())
    return tiles


def _kernels(weight: Tensor) -> Tensor:
    """Return G g G^T of all kernels, [C', C, 3, 3] to [36, C, C']."""
    both = torch.kron(_G, _G).to(weight)
    num_out, num_in = weight.shape[:2]
    flat = weight.detach().permute(2, 3, 1, 0).reshape(9, num_in * num_out)
    return (both @ flat).view(-1, num_in, num_out)


def _of_kernels(gradients: Tensor) -> Tensor:
    """Return the gradient by the kernels [C', C, 3, 3] from that by G g G^T [36, C, C']."""
    both = torch.kron(_G, _G).to(gradients)
    _, num_in, num_out = gradients.shape
    flat = both.t() @ gradients.flatten(1)
    return flat.view(3, 3, num_in, num_out).permute(3, 2, 0, 1)


def _compile(dtype: torch.dtype) -> None:
    maps = torch.zeros(1, _SIDE, _SIDE, dtype=dtype).numpy()
    tiles = torch.zeros(_SIDE**2, 1, 1, dtype=dtype).numpy()
    band = torch.zeros(_SIDE, _SIDE, dtype=dtype).numpy()
    _from_maps(maps, band, tiles)
    _add_to_maps(tiles, band, maps)
    inner, narrow = maps[:, :TILE, :TILE].copy(), band[:, :TILE].copy()
    _from_gradients(inner, narrow, tiles)
    _to_maps(tiles, narrow, inner)


# --- one direction: vectors of six or four, elementwise -------------------------------------------


@compiled
def _b_t(x_0: Any, x_1: Any, x_2: Any, x_3: Any, x_4: Any, x_5: Any, out: Any) -> None:
    """Write B^T x, of x [6], to `out` [6, ...]."""
    o_0, o_1, o_2, o_3, o_4, o_5 = out[0], out[1], out[2], out[3], out[4], out[5]
    near, far = x_0.dtype.type(_NEAR), x_0.dtype.type(_FAR)
    two, half, both = x_0.dtype.type(2.0), x_0.dtype.type(0.5), x_0.dtype.type(2.5)
    for k in range(len(x_0)):
        o_0[k] = x_0[k] - both * x_2[k] + x_4[k]
        even, odd = x_4[k] - two * x_2[k], near * (x_3[k] - two * x_1[k])
        o_1[k], o_2[k] = even + odd, even - odd
        even, odd = x_4[k] - half * x_2[k], far * (x_3[k] - half * x_1[k])
        o_3[k], o_4[k] = even + odd, even - odd
        o_5[k] = x_1[k] - both * x_3[k] + x_5[k]


@compiled
def _add_b(m: Any, x_0: Any, x_1: Any, x_2: Any, x_3: Any, x_4: Any, x_5: Any) -> None:
    """Add B m, of m [6, ...], to x [6]."""
    m_0, m_1, m_2, m_3, m_4, m_5 = m[0], m[1], m[2], m[3], m[4], m[5]
    near, far = x_0.dtype.type(_NEAR), x_0.dtype.type(_FAR)
    two, half, both = x_0.dtype.type(2.0), x_0.dtype.type(0.5), x_0.dtype.type(2.5)
    for k in range(len(x_0)):
        sum_near, odd_near = m_1[k] + m_2[k], near * (m_1[k] - m_2[k])
        sum_far, odd_far = m_3[k] + m_4[k], far * (m_3[k] - m_4[k])
        x_0[k] += m_0[k]
        x_1[k] += m_5[k] - two * odd_near - half * odd_far
        x_2[k] -= both * m_0[k] + two * sum_near + half * sum_far
        x_3[k] += odd_near + odd_far - both * m_5[k]
        x_4[k] += m_0[k] + sum_near + sum_far
        x_5[k] += m_5[k]


@compiled
def _a_t(m: Any, y_0: Any, y_1: Any, y_2: Any, y_3: Any) -> None:
    """Write A^T m, of m [6, ...], to y [4]."""
    m_0, m_1, m_2, m_3, m_4, m_5 = m[0], m[1], m[2], m[3], m[4], m[5]
    near, far = y_0.dtype.type(_NEAR), y_0.dtype.type(_FAR)
    two, half = y_0.dtype.type(2.0), y_0.dtype.type(0.5)
    for k in range(len(y_0)):
        sum_near, odd_near = m_1[k] + m_2[k], near * (m_1[k] - m_2[k])
        sum_far, odd_far = m_3[k] + m_4[k], far * (m_3[k] - m_4[k])
        y_0[k] = m_0[k] + sum_near + sum_far
        y_1[k] = odd_near + odd_far
        y_2[k] = half * sum_near + two * sum_far
        y_3[k] = half * odd_near + two * odd_far + m_5[k]


@compiled
def _a(s_0: Any, s_1: Any, s_2: Any, s_3: Any, out: Any) -> None:
    """Write A s, of s [4], to `out` [6, ...]."""
    o_0, o_1, o_2, o_3, o_4, o_5 = out[0], out[1], out[2], out[3], out[4], out[5]
    near, far = s_0.dtype.type(_NEAR), s_0.dtype.type(_FAR)
    two, half = s_0.dtype.type(2.0), s_0.dtype.type(0.5)
    for k in range(len(s_0)):
        o_0[k] = s_0[k]
        even, odd = s_0[k] + half * s_2[k], near * (s_1[k] + half * s_3[k])
        o_1[k], o_2[k] = even + odd, even - odd
        even, odd = s_0[k] + two * s_2[k], far * (s_1[k] + two * s_3[k])
        o_3[k], o_4[k] = even + odd, even - odd
        o_5[k] = s_3[k]


# --- both directions: first along a band of rows, then along its tiles, or in reverse -------------


@compiled
def _from_maps(maps: _Array, band: _Array, tiles: _Array) -> None:
    """Write B^T x B of the padded maps [n, rows, columns * C] to the tiles [36, tiles, C].

    The band [6, columns * C] is scratch.
    """
    num_channels = tiles.shape[2]
    across = (maps.shape[2] // num_channels - 2) // TILE
    tile = 0
    for sample in range(len(maps)):
        for top in range(0, maps.shape[1] - 2, TILE):
            x = maps[sample, top : top + _SIDE]
            _b_t(x[0], x[1], x[2], x[3], x[4], x[5], band)
            for column in range(across):
                for i in range(_SIDE):
                    start = TILE * column * num_channels
                    r = band[i, start : start + _SIDE * num_channels]
                    r = r.reshape(_SIDE, num_channels)
                    out = tiles[_SIDE * i : _SIDE * (i + 1), tile]
                    _b_t(r[0], r[1], r[2], r[3], r[4], r[5], out)
                tile += 1


@compiled
def _add_to_maps(tiles: _Array, band: _Array, maps: _Array) -> None:
    """Add B m B^T of every tile to the maps; arguments as for `_from_maps`."""
    num_channels = tiles.shape[2]
    across = (maps.shape[2] // num_channels - 2) // TILE
    tile = 0
    for sample in range(len(maps)):
        for top in range(0, maps.shape[1] - 2, TILE):
            band[:] = 0.0
            for column in range(across):
                for i in range(_SIDE):
                    start = TILE * column * num_channels
                    r = band[i, start : start + _SIDE * num_channels]
                    r = r.reshape(_SIDE, num_channels)
                    m = tiles[_SIDE * i : _SIDE * (i + 1), tile]
                    _add_b(m, r[0], r[1], r[2], r[3], r[4], r[5])
                tile += 1
            x = maps[sample, top : top + _SIDE]
            _add_b(band, x[0], x[1], x[2], x[3], x[4], x[5])


@compiled
def _to_maps(tiles: _Array, band: _Array, maps: _Array) -> None:
    """Write A^T m A of the tiles [36, tiles, C'] to the maps [n, rows, columns * C'].

    The band [6, columns * C'] is scratch.
    """
    num_channels = tiles.shape[2]
    across = maps.shape[2] // num_channels // TILE
    tile = 0
    for sample in range(len(maps)):
        for top in range(0, maps.shape[1], TILE):
            for column in range(across):
                for i in range(_SIDE):
                    start = TILE * column * num_channels
                    r = band[i, start : start + TILE * num_channels]
                    r = r.reshape(TILE, num_channels)
                    m = tiles[_SIDE * i : _SIDE * (i + 1), tile]
                    _a_t(m, r[0], r[1], r[2], r[3])
                tile += 1
            y = maps[sample, top : top + TILE]
            _a_t(band, y[0], y[1], y[2], y[3])


@compiled
def _from_gradients(gradients: _Array, band: _Array, tiles: _Array) -> None:
    """Compute A s A^T of every tile; arguments of `_to_maps`, with gradients instead of maps."""
    num_channels = tiles.shape[2]
    across = gradients.shape[2] // num_channels // TILE
    tile = 0
    for sample in range(len(gradients)):
        for top in range(0, gradients.shape[1], TILE):
            s = gradients[sample, top : top + TILE]
            _a(s[0], s[1], s[2], s[3], band)
            for column in range(across):
                for i in range(_SIDE):
                    start = TILE * column * num_channels
                    r = band[i, start : start + TILE * num_channels]
                    r = r.reshape(TILE, num_channels)
                    _a(r[0], r[1], r[2], r[3], tiles[_SIDE * i : _SIDE * (i + 1), tile])
                tile += 1
