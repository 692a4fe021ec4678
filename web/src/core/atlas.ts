// All heads of an attention in one picture: a row of squares for each layer, painted in one go.

import type { Palette } from './colour'
import { fit, paint, type Pooled } from './heat'
import type { Matrix } from './matrix'

export interface Sheet {
  /** Pixels of the whole picture. */
  width: number
  height: number
  /** Pixels of one square, and between two. */
  tileWidth: number
  tileHeight: number
  gap: number
  pooled: Pooled
}

/** A picture of `across` × `down` squares, each at most `most` pixels a side. */
export function sheet(matrix: { rows: number; columns: number }, across: number, down: number, most: number): Sheet {
  const pooled = fit(matrix, most, most)
  const gap = Math.max(2, Math.round(pooled.columns / 12))
  return {
    width: across * (pooled.columns + gap) - gap,
    height: down * (pooled.rows + gap) - gap,
    tileWidth: pooled.columns,
    tileHeight: pooled.rows,
    gap,
    pooled,
  }
}

/** Paints `matrices`, in reading order. */
export function paintAtlas(
  pixels: Uint32Array,
  { width, tileWidth, tileHeight, gap, pooled }: Sheet,
  across: number,
  matrices: readonly (Matrix | undefined)[],
  palette: Palette,
  from = 0,
  to = matrices.length,
): void {
  for (let k = from; k < to; k++) {
    const m = matrices[k]
    if (!m) continue
    const x = (k % across) * (tileWidth + gap)
    const y = Math.floor(k / across) * (tileHeight + gap)
    paint(pixels, width, x, y, m, { kind: 'share' }, palette, pooled)
  }
}
