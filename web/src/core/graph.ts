// The computation as a nested graph: parts, layers, sublayers, operations. Blocks stand in the order of computation; equal layers fold.

import type { Manifest, Step, TensorInfo } from './trace'

export interface Block {
  key: string
  kind: 'part' | 'layer' | 'sublayer' | 'operation'
  part: string
  layer: number | null
  sublayer: string
  steps: Step[]
  blocks: Block[]
}

export function blocks(trace: Manifest): Block[] {
  const parts: Block[] = []
  const into = (list: Block[], block: Omit<Block, 'steps' | 'blocks'>): Block => {
    const known = list.find((one) => one.key === block.key)
    if (known) return known
    const made = { ...block, steps: [], blocks: [] }
    list.push(made)
    return made
  }
  for (const step of trace.steps) {
    const { part, layer, sublayer } = step
    const place = into(parts, { key: part, kind: 'part', part, layer: null, sublayer: '' })
    place.steps.push(step)
    let inside = place
    if (layer !== null) {
      inside = into(place.blocks, { key: `${part}.${layer}`, kind: 'layer', part, layer, sublayer: '' })
      inside.steps.push(step)
    }
    const key = layer === null ? `${part}.${sublayer}` : `${part}.${layer}.${sublayer}`
    const sub = into(inside.blocks, { key, kind: 'sublayer', part, layer, sublayer })
    sub.steps.push(step)
    sub.blocks.push({ key: step.id, kind: 'operation', part, layer, sublayer, steps: [step], blocks: [] })
  }
  return parts
}

/** What a layer does, so that equal ones fold. */
export const signature = (block: Block): string => block.steps.map((step) => `${step.sublayer}.${step.kind}`).join(' ')

/** Multiplications with additions of a step, counted from shapes. */
export function work(step: Step, info: (name: string) => TensorInfo | undefined): number {
  const [a = [], b = []] = step.inputs.map((name) => info(name)?.shape ?? [])
  const out = info(step.outputs[0] ?? '')?.shape ?? []
  const size = (shape: readonly number[]): number => (shape.length === 0 ? 0 : shape.reduce((x, y) => x * y, 1))
  switch (step.kind) {
    case 'linear':
      return size(out) * (a.at(-1) ?? 0)
    // [queries, keys, heads], each a dot product of a head's columns.
    case 'scores':
      return (out[0] ?? 0) * (out[1] ?? 0) * (a.at(-1) ?? 0)
    case 'mix':
      return (a[0] ?? 0) * (a[1] ?? 0) * (out.at(-1) ?? 0)
    default:
      return b.length > 0 || a.length > 0 ? size(out) : 0
  }
}
