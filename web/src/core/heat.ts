// Heat maps as pixels: one loop over the numbers and a table of colours. Where there are more numbers than pixels, each pixel shows
// the one that is largest in absolute value, and the caller says so.

import { type Palette, shareIndex, signedIndex } from './colour'
import { type Matrix, at } from './matrix'

export type Map = { kind: 'share' } | { kind: 'signed'; scale: number }

/** What one pixel stands for. */
export interface Pooled {
  rows: number
  columns: number
  /** How many numbers of each axis one pixel has. */
  down: number
  right: number
}

/** How `m` fits into at most `height` × `width` pixels. */
export function fit(m: { rows: number; columns: number }, width: number, height: number): Pooled {
  const down = Math.max(1, Math.ceil(m.rows / Math.max(1, height)))
  const right = Math.max(1, Math.ceil(m.columns / Math.max(1, width)))
  return { rows: Math.ceil(m.rows / down), columns: Math.ceil(m.columns / right), down, right }
}

function colours(map: Map, palette: Palette): (x: number) => number {
  if (map.kind === 'share') return (x) => palette.share[shareIndex(x)] as number
  const scale = map.scale || 1
  return (x) => (x === -Infinity ? 0 : (palette.signed[signedIndex(x, scale)] as number))
}

/** Writes `m` into `pixels`, which are `stride` to a row, from (`x`, `y`) on. −∞ is left transparent. */
export function paint(
  pixels: Uint32Array,
  stride: number,
  x: number,
  y: number,
  m: Matrix,
  map: Map,
  palette: Palette,
  pooled: Pooled = { rows: m.rows, columns: m.columns, down: 1, right: 1 },
): void {
  if (pooled.down > 1 || pooled.right > 1) {
    const colour = colours(map, palette)
    const { data } = m
    const best = new Float32Array(pooled.columns)
    for (let i = 0; i < pooled.rows; i++) {
      best.fill(-Infinity)
      const last = Math.min(m.rows, (i + 1) * pooled.down)
      for (let row = i * pooled.down; row < last; row++) {
        let from = m.start + row * m.down
        for (let j = 0, c = 0; j < pooled.columns; j++) {
          const end = Math.min(m.columns, (j + 1) * pooled.right)
          let most = best[j] as number
          for (; c < end; c++, from += m.right) {
            const number = data[from] as number
            if (number !== -Infinity && (most === -Infinity || Math.abs(number) > Math.abs(most))) most = number
          }
          best[j] = most
        }
      }
      for (let j = 0; j < pooled.columns; j++) pixels[(y + i) * stride + x + j] = colour(best[j] as number)
    }
    return
  }
  const { data, down, right } = m
  if (map.kind === 'share') {
    const table = palette.share
    for (let i = 0; i < m.rows; i++) {
      let from = m.start + i * down
      let to = (y + i) * stride + x
      for (let j = 0; j < m.columns; j++, from += right) pixels[to++] = table[shareIndex(data[from] as number)] as number
    }
    return
  }
  const colour = colours(map, palette)
  for (let i = 0; i < m.rows; i++) {
    let from = m.start + i * down
    let to = (y + i) * stride + x
    for (let j = 0; j < m.columns; j++, from += right) pixels[to++] = colour(data[from] as number)
  }
}

/** The number of a pooled cell: the largest in absolute value; −∞ only where there is nothing else. */
export function strongest(m: Matrix, i: number, j: number, pooled: Pooled): number {
  let best = -Infinity
  const lastRow = Math.min(m.rows, (i + 1) * pooled.down)
  const lastColumn = Math.min(m.columns, (j + 1) * pooled.right)
  for (let r = i * pooled.down; r < lastRow; r++) {
    for (let c = j * pooled.right; c < lastColumn; c++) {
      const x = at(m, r, c)
      if (x === -Infinity) continue
      if (best === -Infinity || Math.abs(x) > Math.abs(best)) best = x
    }
  }
  return best
}

/** Which cell lies under a point of a drawing that is `width` × `height`. */
export function hit(
  x: number,
  y: number,
  width: number,
  height: number,
  m: { rows: number; columns: number },
): { row: number; column: number } | undefined {
  if (x < 0 || y < 0 || x >= width || y >= height) return undefined
  return { row: Math.floor((y / height) * m.rows), column: Math.floor((x / width) * m.columns) }
}
