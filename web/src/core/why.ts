// Why a number is what it is: the terms that its formula adds up, their sum in f64, and the engine's own value beside it. The formula
// is the one that the engine wrote for the operation that ran. What the trace does not hold is named, not guessed.

import { offset } from './matrix'
import type { Data } from './safetensors'
import type { Manifest, Step, TensorInfo } from './trace'

export interface Held {
  shape: number[]
  data: Data
}
export type Values = (name: string) => Held | undefined

export interface Term {
  /** What the term counts: a column, a token. */
  at: number
  left: number
  right: number
  product: number
}
export interface Named {
  name: string
  value: number
}

export type Arithmetic =
  | { kind: 'dot'; left: string; right: string; terms: Term[]; factor?: { text: string; value: number }; added: Named[]; head?: number }
  | { kind: 'softmax'; scores: number[]; at: number; largest: number; sum: number }
  | { kind: 'norm'; x: number; mean: number; variance: number; epsilon: number; gain?: number; bias?: number; centred: boolean }
  | { kind: 'sum'; terms: Named[] }
  | { kind: 'product'; factors: Named[] }
  | { kind: 'function'; name: string; x: number; gate?: Named }
  | { kind: 'rotate'; a: number; b: number; angle: number; first: boolean; position: number }
  | { kind: 'masked' }
  | { kind: 'missing'; tensors: string[] }
  | { kind: 'given' }
  | { kind: 'whole' }

export interface Why {
  step: Step | undefined
  tensor: string
  index: number[]
  /** The engine's own number. */
  engine: number
  arithmetic: Arithmetic
  /** What the terms give in f64, where they are all there. */
  value?: number
}

/** The step that wrote `tensor`. */
export const writer = (trace: Manifest, tensor: string): Step | undefined =>
  trace.steps.find((step) => step.outputs.includes(tensor))

/** The arithmetic of one element. */
export function why(trace: Manifest, values: Values, tensor: string, index: number[]): Why | undefined {
  const held = values(tensor)
  const info = trace.tensors.find((t) => t.name === tensor)
  const place = held && offset(held.shape, index)
  if (held === undefined || place === undefined) return undefined
  const engine = held.data[place] as number
  const step = writer(trace, tensor)
  const arithmetic = step?.equation ? explain(step, values, index, engine, info) : ({ kind: 'given' } as const)
  return { step, tensor, index, engine, arithmetic, value: total(arithmetic) }
}

/** What the terms give. */
export function total(a: Arithmetic): number | undefined {
  switch (a.kind) {
    case 'dot': {
      const dot = a.terms.reduce((sum, term) => sum + term.product, 0)
      return a.added.reduce((sum, more) => sum + more.value, dot * (a.factor?.value ?? 1))
    }
    case 'softmax':
      return Math.exp((a.scores[a.at] as number) - a.largest) / a.sum
    case 'norm': {
      const normal = (a.x - (a.centred ? a.mean : 0)) / Math.sqrt(a.variance + a.epsilon)
      return normal * (a.gain ?? 1) + (a.bias ?? 0)
    }
    case 'sum':
      return a.terms.reduce((sum, term) => sum + term.value, 0)
    case 'product':
      return a.factors.reduce((product, factor) => product * factor.value, 1)
    case 'function': {
      const y = activation(a.name, a.x)
      return y === undefined ? undefined : y * (a.gate?.value ?? 1)
    }
    case 'rotate':
      return a.first ? a.a * Math.cos(a.angle) - a.b * Math.sin(a.angle) : a.b * Math.cos(a.angle) + a.a * Math.sin(a.angle)
    case 'masked':
    case 'missing':
    case 'given':
    case 'whole':
      return undefined
  }
}

function explain(step: Step, values: Values, index: number[], engine: number, info: TensorInfo | undefined): Arithmetic {
  const text = step.equation?.text ?? ''
  const [formula = '', ...conditions] = clauses(text)
  const right = formula.slice(formula.indexOf('=') + 1).trim()
  const operands = step.equation?.operands ?? []
  const missing = operands.map((operand) => operand.tensor).filter((name) => values(name) === undefined)
  const what = { step, right, conditions, operands, values, index, engine, info }
  if (step.kind === 'scores' && engine === -Infinity) return { kind: 'masked' }
  if (missing.length > 0) return missing.length === operands.length && step.kind === 'lookup' ? { kind: 'given' } : { kind: 'missing', tensors: missing }
  return (
    (step.kind === 'scores' && scores(what)) ||
    (step.kind === 'mix' && mix(what)) ||
    (/^softmax\(/.test(right) && softmax(what)) ||
    norm(what) ||
    rotate(what) ||
    linear(what) ||
    elementwise(what) || { kind: operands.length === 0 || ['lookup', 'position', 'tokens'].includes(step.kind) ? 'given' : 'whole' }
  )
}

/** What commas separate, those in brackets apart. */
export function clauses(text: string): string[] {
  const list = ['']
  let depth = 0
  for (const letter of text) {
    if (letter === '(' || letter === '[') depth++
    if (letter === ')' || letter === ']') depth--
    if (letter === ',' && depth === 0) list.push('')
    else list[list.length - 1] += letter
  }
  return list.map((part) => part.trim())
}

interface What {
  step: Step
  right: string
  conditions: string[]
  operands: { symbol: string; tensor: string; transposed?: boolean }[]
  values: Values
  index: number[]
  engine: number
  info: TensorInfo | undefined
}

const held = (what: What, k: number): Held | undefined => {
  const operand = what.operands[k]
  return operand && what.values(operand.tensor)
}

const count = (what: What, name: string): number | undefined => {
  const found = what.conditions.find((condition) => condition.startsWith(`${name} = `))
  return found === undefined ? undefined : Number(found.slice(name.length + 3).replace('−', '-'))
}

/** `/ √64`, or a factor that stands first. */
function factor(right: string): { text: string; value: number } | undefined {
  const root = /\/ √(\d+)/.exec(right)
  if (root) return { text: `/ √${root[1]}`, value: 1 / Math.sqrt(Number(root[1])) }
  const first = /^(√?)(−?[\d.]+(?:e−?\d+)?) · /.exec(right)
  if (!first) return undefined
  const value = Number((first[2] as string).replaceAll('−', '-'))
  return { text: `${first[1]}${first[2]} ·`, value: first[1] ? Math.sqrt(value) : value }
}

/** Queries and keys: a head's own columns of each, where heads of keys may be shared. */
function scores(what: What): Arithmetic | undefined {
  const [q, k] = [held(what, 0), held(what, 1)]
  const [i = 0, j = 0, head = 0] = what.index
  const heads = count(what, 'h') ?? 1
  const shared = count(what, 'h_kv') ?? heads
  if (!q || !k || q.shape.length !== 2 || k.shape.length !== 2) return undefined
  if (/bucket|\|i − j\||\[i − j\]/.test(what.right)) return { kind: 'whole' }
  const [width = 0, keyWidth = 0] = [q.shape[1], k.shape[1]]
  const size = width / heads
  if (!Number.isInteger(size) || keyWidth / shared !== size) return undefined
  const keyHead = Math.floor((head * shared) / heads)
  const terms = Array.from({ length: size }, (_, c) => {
    const left = q.data[i * width + head * size + c] as number
    const right = k.data[j * keyWidth + keyHead * size + c] as number
    return { at: head * size + c, left, right, product: left * right }
  })
  const [left, right] = what.operands
  return { kind: 'dot', left: left?.symbol ?? 'Q', right: right?.symbol ?? 'K', terms, factor: factor(what.right), added: [], head }
}

/** Shares of values. */
function mix(what: What): Arithmetic | undefined {
  const [a, v] = [held(what, 0), held(what, 1)]
  if (!a || !v || a.shape.length !== 3 || v.shape.length !== 2) return undefined
  const [, keys = 0, heads = 1] = a.shape
  const [i = 0, column = 0] = what.index
  const size = (what.info?.shape[1] ?? 0) / heads
  const shared = count(what, 'h_kv') ?? heads
  const head = Math.floor(column / size)
  const keyHead = Math.floor((head * shared) / heads)
  const width = v.shape[1] ?? 0
  const terms = Array.from({ length: keys }, (_, j) => {
    const left = a.data[(i * keys + j) * heads + head] as number
    const right = v.data[j * width + keyHead * size + (column % size)] as number
    return { at: j, left, right, product: left * right }
  })
  return { kind: 'dot', left: what.operands[0]?.symbol ?? 'A', right: what.operands[1]?.symbol ?? 'V', terms, added: [], head }
}

/** Along keys, or along the vocabulary. */
function softmax(what: What): Arithmetic | undefined {
  const s = held(what, 0)
  if (!s) return undefined
  const [i = 0, j = 0, head = 0] = what.index
  const [, length = 0, heads = 1] = s.shape
  const scores = Array.from({ length }, (_, k) => s.data[(i * length + k) * heads + head] as number)
  const largest = scores.reduce((a, b) => Math.max(a, b), -Infinity)
  const sum = scores.reduce((all, x) => all + Math.exp(x - largest), 0)
  return { kind: 'softmax', scores, at: j, largest, sum }
}

/** `γ ⊙ LN(X) + β`, `γ ⊙ RMS(X)`. */
function norm(what: What): Arithmetic | undefined {
  const found = /(LN|RMS)\(([^()]+)\)/.exec(what.right)
  if (!found) return undefined
  const x = what.operands.find((operand) => operand.symbol === found[2])
  const tensor = x && what.values(x.tensor)
  const [i = 0, j = 0] = what.index
  const epsilon = count(what, 'ε')
  if (!tensor || epsilon === undefined || tensor.shape.length !== 2) return undefined
  // The norm of a head has the head's own columns.
  const width = (tensor.shape[1] ?? 0) / (count(what, 'h') ?? 1)
  const from = i * (tensor.shape[1] ?? 0) + Math.floor(j / width) * width
  const row = tensor.data.subarray(from, from + width)
  const centred = found[1] === 'LN'
  const mean = row.reduce((sum, y) => sum + y, 0) / width
  const variance = row.reduce((sum, y) => sum + (y - (centred ? mean : 0)) ** 2, 0) / width
  const one = (symbol: string): number | undefined => {
    const operand = what.operands.find((other) => other.symbol === symbol)
    const data = operand && what.values(operand.tensor)?.data
    return data?.[data.length === width ? j % width : j]
  }
  const gain = one('γ')
  const plusOne = /\(1 \+ γ\)/.test(what.right) ? 1 : 0
  return { kind: 'norm', x: row[j % width] as number, mean, variance, epsilon, gain: gain === undefined ? undefined : gain + plusOne, bias: one('β'), centred }
}

/** `RoPE(Q, ω)`: pairs of a head's numbers turn by p · ω. */
function rotate(what: What): Arithmetic | undefined {
  const found = /^RoPE\(([^,]+), ω\)$/.exec(what.right)
  const [x, turns] = [held(what, 0), held(what, 1)]
  const apart = /i ↔ i \+ (\d+)/.exec(what.conditions.join(', '))
  const beside = /2i ↔ 2i \+ 1/.test(what.conditions.join(', '))
  if (!found || !x || !turns || (!apart && !beside) || x.shape.length !== 2) return undefined
  const [i = 0, j = 0] = what.index
  const size = (x.shape[1] ?? 0) / (count(what, 'h') ?? 1)
  const begin = i * (x.shape[1] ?? 0) + Math.floor(j / size) * size
  const c = j % size
  const distance = apart ? Number(apart[1]) : 1
  const first = apart ? c < turns.data.length : c % 2 === 0
  const pair = apart ? (first ? c : c - distance) : Math.floor(c / 2)
  const omega = turns.data[pair]
  if (pair < 0 || omega === undefined) return undefined
  const low = apart ? pair : 2 * pair
  return { kind: 'rotate', a: x.data[begin + low] as number, b: x.data[begin + low + distance] as number, angle: i * omega, first, position: i }
}

/** `X · W + b`. */
function linear(what: What): Arithmetic | undefined {
  const [x, w] = [held(what, 0), held(what, 1)]
  const [left, weight] = what.operands
  if (!x || !w || !left || !weight || !what.right.includes(`${left.symbol} · ${weight.symbol}`)) return undefined
  const [i = 0, j = 0] = what.index
  if (x.shape.length !== 2 || w.shape.length !== 2) return undefined
  const width = x.shape[1] ?? 0
  const turned = what.right.includes(`${weight.symbol}ᵀ`) !== !!weight.transposed
  const [down = 0, across = 0] = w.shape
  if ((turned ? across : down) !== width) return undefined
  const terms = Array.from({ length: width }, (_, k) => {
    const a = x.data[i * width + k] as number
    const b = w.data[turned ? j * across + k : k * across + j] as number
    return { at: k, left: a, right: b, product: a * b }
  })
  const added = what.operands.slice(2).flatMap((operand) => {
    const tensor = what.values(operand.tensor)
    const value = tensor && element(tensor, what.index)
    return value === undefined ? [] : [{ name: operand.symbol, value }]
  })
  return { kind: 'dot', left: left.symbol, right: weight.symbol, terms, factor: factor(what.right), added }
}

/** The element at `index`, or at its column where the tensor is one row. */
function element(tensor: Held, index: number[]): number | undefined {
  const place = offset(tensor.shape, index)
  if (place !== undefined) return tensor.data[place]
  const column = index.at(-1) ?? 0
  return tensor.data.length === tensor.shape.at(-1) ? tensor.data[column] : undefined
}

/** Sums, products and functions that go number by number. */
function elementwise(what: What): Arithmetic | undefined {
  const value = (symbol: string): number | undefined => {
    const operand = what.operands.find((other) => other.symbol === symbol)
    const tensor = operand && what.values(operand.tensor)
    return tensor && element(tensor, what.index)
  }
  const named = (symbols: string[]): Named[] | undefined => {
    const all = symbols.map((name) => ({ name, value: value(name) }))
    return all.every((one): one is Named => one.value !== undefined) ? all : undefined
  }
  const sum = what.right.includes(' + ') ? named(what.right.split(' + ')) : undefined
  if (sum) return { kind: 'sum', terms: sum }
  const scaled = factor(what.right)
  if (scaled) {
    const x = value(what.right.replace(scaled.text, '').trim())
    if (x !== undefined) return { kind: 'product', factors: [{ name: scaled.text.replace(' ·', ''), value: scaled.value }, { name: what.right.replace(scaled.text, '').trim(), value: x }] }
  }
  const applied = /^([A-Za-z_]+|σ)\(([^()]+)\)(?: ⊙ (.+))?$/.exec(what.right)
  if (applied) {
    const [, name = '', inner = '', other] = applied
    const x = value(inner)
    const gate = other === undefined ? undefined : value(other)
    if (x !== undefined && (other === undefined || gate !== undefined) && activation(name, x) !== undefined) {
      return { kind: 'function', name, x, gate: other === undefined || gate === undefined ? undefined : { name: other, value: gate } }
    }
  }
  const factors = what.right.includes(' ⊙ ') ? named(what.right.split(' ⊙ ')) : undefined
  return factors && { kind: 'product', factors }
}

/** The functions that models use; `undefined` for another. */
export function activation(name: string, x: number): number | undefined {
  switch (name) {
    case 'ReLU':
      return Math.max(0, x)
    case 'GELU':
      return 0.5 * x * (1 + erf(x / Math.SQRT2))
    case 'GELU_tanh':
      return 0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3)))
    case 'SiLU':
      return x / (1 + Math.exp(-x))
    case 'tanh':
      return Math.tanh(x)
    case 'σ':
      return 1 / (1 + Math.exp(-x))
    default:
      return undefined
  }
}

/** The error function: its series near zero, its continued fraction beyond. */
export function erf(x: number): number {
  const a = Math.abs(x)
  if (a > 6) return Math.sign(x)
  if (a < 2.5) {
    let term = a
    let sum = a
    for (let n = 1; n < 80; n++) {
      term *= -(a * a) / n
      sum += term / (2 * n + 1)
    }
    return (Math.sign(x) * 2 * sum) / Math.sqrt(Math.PI)
  }
  let fraction = 0
  for (let n = 60; n > 0; n--) fraction = n / 2 / (a + fraction)
  return Math.sign(x) * (1 - Math.exp(-a * a) / (Math.sqrt(Math.PI) * (a + fraction)))
}
