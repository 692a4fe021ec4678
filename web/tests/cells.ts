// Numbers on the page held against the numbers of the trace: bits, rows, columns and their names.

import type { Page } from 'playwright-core'
import { bits } from '../src/core/bits'
import { readable, short } from '../src/core/words'
import { go } from './browser'
import { type Run, sequence } from './runs'

/** What is wrong with `count` cells that are drawn by lot; nothing where all is right. */
export async function wrong(page: Page, run: Run, count: number, seed: number): Promise<string[]> {
  const next = sequence(seed)
  const pick = (n: number): number => Math.floor(next() * n)
  const steps = run.trace.steps.filter((step) => {
    const tensor = run.tensors.get(step.outputs[0] ?? '')
    return tensor !== undefined && tensor.shape.length >= 2 && tensor.data.length > 0
  })
  const faults: string[] = []
  let step = steps[0]
  for (let k = 0; k < count; k++) {
    // Some cells of each step: going to a step is what takes time.
    if (k % 5 === 0) step = steps[pick(steps.length)]
    const name = step?.outputs[0] ?? ''
    const tensor = run.tensors.get(name)
    const info = run.trace.tensors.find((one) => one.name === name)
    if (!tensor || !info || !step) throw new Error(`${name} is not there`)
    const index = tensor.shape.map(pick)
    const at = index.reduce((sum, i, axis) => sum * (tensor.shape[axis] ?? 1) + i, 0)
    const hash = new URLSearchParams({ view: 'walk', zoom: '6', step: step.id, cell: `${name}:${index.join(',')}`, ...(index.length === 3 ? { head: String(index[2]) } : { head: String(headOf(info.heads, tensor.shape[1], index[1])) }) })
    await go(page, hash.toString())
    const seen = await page.evaluate(
      ([tensorName, place]) => {
        const cell = document.querySelector(`.stage table[data-tensor="${CSS.escape(tensorName)}"] td[data-index="${place}"]`)
        const column = cell ? [...(cell.parentElement?.children ?? [])].indexOf(cell) : -1
        const inspector = document.querySelector(`.inspector [data-tensor="${CSS.escape(tensorName)}"][data-index="${place}"]`)
        return {
          cell: cell?.getAttribute('data-f32'),
          inspector: inspector?.getAttribute('data-f32'),
          row: cell?.parentElement?.querySelector('th')?.textContent,
          column: cell?.closest('table')?.querySelector('thead tr')?.children[column]?.textContent,
        }
      },
      [name, index.join(',')] as const,
    )
    const said = `${name}[${index.join(',')}]`
    const truth = bits(tensor.data[at] as number)
    if (seen.cell !== truth) faults.push(`${said} shows ${seen.cell}, and is ${truth}`)
    if (seen.inspector !== truth) faults.push(`${said} is explained as ${seen.inspector}, and is ${truth}`)
    for (const [axis, label] of [[0, seen.row], [1, seen.column]] as const) {
      const counts = info.axes[axis]
      const tokens = counts === 'source' ? run.trace.tokens.source : counts === 'target' ? run.trace.tokens.target : undefined
      const wanted = tokens ? readable(tokens[index[axis] ?? 0]) : counts === 'numbers' ? String(index[axis]) : undefined
      if (wanted === undefined) continue
      const shown = (label ?? '').replace(/…$/, '')
      if (!(label === wanted || label === short(wanted, axis === 0 ? 12 : 9) || label?.startsWith(`${wanted} →`) || (label?.endsWith('…') && `${wanted} → `.startsWith(shown.slice(0, wanted.length))))) faults.push(`${said} stands at “${label}”, which is “${wanted}”`)
    }
  }
  return faults
}

const headOf = (heads: number | null | undefined, columns = 1, column = 0): number => (heads ? Math.floor((column * heads) / columns) : 0)
