// What every drawing of a tensor needs: its matrix, names, colours and mask.

import type { Map } from '../core/heat'
import { type Matrix, at, columns, extent } from '../core/matrix'
import type { TensorInfo } from '../core/trace'
import { readable } from '../core/words'
import type { Page } from '../state.svelte'

export interface Drawn {
  info: TensorInfo
  matrix: Matrix
  map: Map
  /** What the map ends at. */
  largest: number
  rowNames: string[]
  columnNames: string[]
  masked: ((row: number, column: number) => boolean) | undefined
  /** Where the drawn columns begin in the tensor's. */
  from: number
}

/** Where a head's own columns are, in a tensor whose columns divide into heads. */
export function headColumns(info: TensorInfo, heads: number, head: number): { from: number; count: number } | undefined {
  const own = info.heads ?? 0
  if (own <= 0 || info.shape.length !== 2) return undefined
  const count = (info.shape[1] ?? 0) / own
  if (!Number.isInteger(count)) return undefined
  // Heads of keys may be shared by several heads of queries.
  return { from: Math.floor((head * own) / Math.max(own, heads)) * count, count }
}

/** The tensor `name`, as far as it is here. */
export function drawn(page: Page, name: string, head: number, only?: { from: number; count: number }): Drawn | undefined {
  const info = page.info(name)
  const whole = page.matrix(name, head)
  if (!info || !whole) return undefined
  const matrix = only ? columns(whole, only.from, only.count) : whole
  const { largest, masked } = extent(matrix)
  const row = info.shape.length === 1 ? -1 : 0
  const shares = info.normalised !== null && info.normalised !== undefined
  return {
    info,
    matrix,
    map: shares ? { kind: 'share' } : { kind: 'signed', scale: largest || 1 },
    largest,
    rowNames: row < 0 ? [''] : askers(page, info),
    columnNames: page.names(info, info.shape.length === 1 ? 0 : 1).slice(only?.from ?? 0),
    masked: mask(page, info, head, matrix, masked),
    from: only?.from ?? 0,
  }
}

/** Which cells may not be seen: where a score is −∞. */
function mask(page: Page, info: TensorInfo, head: number, matrix: Matrix, infinite: boolean): Drawn['masked'] {
  if (infinite) return (i, j) => at(matrix, i, j) === -Infinity
  if (info.normalised !== 'softmax' || info.shape.length !== 3) return undefined
  const scores = page.matrix(info.name.replace(/probs$/, 'scores'), head)
  if (!scores || scores.rows !== matrix.rows || scores.columns !== matrix.columns) return undefined
  return extent(scores).masked ? (i, j) => at(scores, i, j) === -Infinity : undefined
}

export const shapeText = (shape: readonly number[]): string => shape.join(' × ')

/** What the rows are called: in an attention of a model that writes, the word that is read and the word that is written there. */
function askers(page: Page, info: TensorInfo): string[] {
  const names = page.names(info, 0)
  const steps = page.trace?.decode?.steps ?? []
  if (info.shape.length !== 3 || info.axes[0] !== 'target' || steps.length === 0) return names
  const written = new Map(steps.map((step) => [step.position, readable({ id: step.chosen.id, text: step.chosen.text })]))
  return names.map((name, k) => (written.has(k) ? `${name} → ${written.get(k)}` : name))
}
