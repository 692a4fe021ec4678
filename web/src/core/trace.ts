// A trace: `trace.json`, schema 1, as the engine writes it. Fields may be added, never renamed; what a level leaves out is null.

export interface Text {
  en: string
  zh: string
}

export interface Token {
  id: number
  text: string
  bytes?: number[] | null
  span?: [number, number] | null
  special?: boolean
  written?: boolean
  group?: number | null
}

export interface Operand {
  symbol: string
  tensor: string
  transposed?: boolean
}

export interface Step {
  id: string
  kind: string
  part: string
  layer: number | null
  sublayer: string
  title: Text
  note?: Text | null
  elsewhere?: Text | null
  equation: { text: string; mathml?: string | null; operands: Operand[] } | null
  inputs: string[]
  outputs: string[]
  lit?: string | null
  checks?: { max_error: number | null; at?: number[] | null; scale?: number | null } | null
}

export interface TensorInfo {
  name: string
  alias?: string | null
  symbol?: string | null
  symbol_mathml?: string | null
  shape: number[]
  axes: string[]
  heads?: number | null
  stored: boolean
  weight?: boolean
  normalised?: string | null
  masked?: boolean
}

export interface Candidate {
  id: number
  text: string
  logit?: number | null
  p: number
}

export interface DecodeStep {
  t: number
  position: number
  chosen: Candidate
  rank: number
  entropy: number
  logprob: number
  candidates: Candidate[]
  stages?: { name: Text; kind: string; alive?: number | null; candidates: Candidate[] }[]
}

export interface BeamNode {
  id: number
  parent: number | null
  t: number
  token: { id: number; text: string }
  logprob: number
  sum: number
  kept: boolean
  finished: boolean
  rank: number
}

export interface Beams {
  width: number
  length_penalty: number
  early_stopping?: unknown
  nodes: BeamNode[]
  finished: { node: number; sum: number; length: number; penalty: number; score: number; arithmetic: string; kept?: boolean; text?: string }[]
  winner: number
  why?: Text | null
}

export interface Decode {
  search: string
  options?: { name: Text; text: Text }[] | null
  steps: DecodeStep[]
  beams?: Beams | null
}

export interface HeadFacts {
  part: string
  sublayer: string
  layer: number
  head: number
  [statistic: string]: number | string | null
}

export interface Guess {
  id: number
  text?: string
  logit: number
  p: number
  rank: number
}

/** What the head reads behind a sublayer, at each place. */
export interface Reading {
  value: string
  layer: number | null
  part: string
  cells: { top: Guess[]; wanted?: Guess | null; entropy?: number | null }[]
}

export interface Lens {
  rows: string[]
  /** Which rows were read. */
  places: number[]
  readings: Reading[]
}

export interface Check {
  name: string
  title?: Text | null
  ok: boolean
  worst?: number | null
  bound?: number | null
}

/** What was chosen, and from what: words for a place, classes, tags, ends of a span. */
export interface Choice {
  place: Text
  chosen: string
  score: number
  candidates: { text: string; score: number }[]
}

export interface Answer {
  kind: string
  text?: string | null
  likely?: string | null
  places?: number[] | null
  labels?: string[] | null
  choices?: Choice[] | null
  note?: Text | null
  [more: string]: unknown
}

export interface Manifest {
  schema: number
  trace?: string
  engine: { name: string; version: string }
  level: string
  model: {
    name: string
    kind?: string | null
    family: string
    parameters?: number | null
    precision?: string | null
    hash?: string | null
    facts?: { name: Text; text: Text }[]
  }
  formula: { unicode: string; latex?: string; mathml?: string; definitions?: { symbol: string; text: Text; mathml?: string }[] }
  input: { text: string; second?: string | null }
  answer: Answer
  tokens: { source: Token[]; target: Token[] }
  steps: Step[]
  tensors: TensorInfo[]
  decode?: Decode | null
  lens?: Lens | null
  attention?: { heads: HeadFacts[] } | null
  alignment?: { best_head?: { layer: number; head: number; sublayer?: string } | null; hard?: [number, number][] } | null
  timings?: Record<string, number> | null
  checks?: Check[]
  edits?: unknown[]
}

/** Why a trace can't be shown. */
export class Faulty extends Error {}

const list = (x: unknown): x is unknown[] => Array.isArray(x)

/** A trace of a file or a server, checked as far as drawing depends on it. */
export function manifest(json: unknown): Manifest {
  if (typeof json !== 'object' || json === null) throw new Faulty('this is no trace')
  const trace = json as Partial<Manifest>
  if (trace.schema !== 1) throw new Faulty(`schema ${String(trace.schema)} is not schema 1`)
  for (const key of ['model', 'formula', 'input', 'tokens', 'steps', 'tensors'] as const) {
    if (trace[key] === undefined || trace[key] === null) throw new Faulty(`the trace has no ${key}`)
  }
  const { steps, tensors, tokens } = trace as Manifest
  if (!list(steps) || !list(tensors) || !list(tokens.source) || !list(tokens.target)) throw new Faulty('the trace has no lists')
  for (const step of steps) {
    if (typeof step?.id !== 'string' || !list(step.inputs) || !list(step.outputs)) throw new Faulty('a step has no name')
  }
  for (const tensor of tensors) {
    const isShape = list(tensor?.shape) && tensor.shape.every((n) => Number.isSafeInteger(n) && n >= 0)
    if (typeof tensor?.name !== 'string' || !isShape) throw new Faulty('a tensor has no shape')
  }
  return trace as Manifest
}

/** Attentions by where they are: `source.attend`, `target.attend`, `target.cross`, in the order of the model, with their layers. */
export interface Attention {
  key: string
  part: string
  sublayer: string
  /** The probabilities' tensor of each layer. */
  layers: { layer: number; tensor: TensorInfo }[]
  heads: number
}

export function attentions(trace: Manifest): Attention[] {
  const found = new Map<string, Attention>()
  for (const step of trace.steps) {
    if (step.kind !== 'probs' || step.layer === null) continue
    const tensor = trace.tensors.find((t) => t.name === step.outputs[0])
    if (!tensor || tensor.shape.length !== 3) continue
    const key = `${step.part}.${step.sublayer}`
    const attention = found.get(key) ?? { key, part: step.part, sublayer: step.sublayer, layers: [], heads: 0 }
    attention.layers.push({ layer: step.layer, tensor })
    attention.heads = Math.max(attention.heads, tensor.shape[2] ?? 0)
    found.set(key, attention)
  }
  for (const attention of found.values()) attention.layers.sort((a, b) => a.layer - b.layer)
  return [...found.values()]
}

/** The tokens that an axis counts. */
export function tokensOf(trace: Manifest, axis: string | undefined): Token[] | undefined {
  if (axis === 'source') return trace.tokens.source
  if (axis === 'target') return trace.tokens.target
  return undefined
}
