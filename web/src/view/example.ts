// The cell that a step begins with, before a reader picks one: the word that is selected, and where it looks most.

import { at } from '../core/matrix'
import { type Why, why } from '../core/why'
import type { Page } from '../state.svelte'

export function exampleCell(page: Page): { tensor: string; index: number[] } | undefined {
  const name = page.step?.outputs[0]
  const info = name === undefined ? undefined : page.info(name)
  if (!info || name === undefined) return undefined
  const rows = info.shape[0] ?? 1
  if (info.shape.length === 1) return { tensor: name, index: [0] }
  const row = info.axes[0] === page.step?.part || page.step?.part === 'head' ? Math.min(Math.max(0, page.selection.query), rows - 1) : 0
  if (info.shape.length === 2) {
    const size = (info.shape[1] ?? 1) / (info.heads ?? 1)
    return { tensor: name, index: [row, info.heads ? Math.min(page.selection.head, info.heads - 1) * size : 0] }
  }
  const head = Math.min(Math.max(0, page.selection.head), (info.shape[2] ?? 1) - 1)
  const matrix = page.matrix(name, head)
  if (!matrix) return undefined
  let best = 0
  for (let j = 1; j < matrix.columns; j++) if (at(matrix, row, j) > at(matrix, row, best)) best = j
  return { tensor: name, index: [row, best, head] }
}

export function example(page: Page): Why | undefined {
  const cell = exampleCell(page)
  return page.trace && cell ? why(page.trace, (name) => page.held(name), cell.tensor, cell.index) : undefined
}
