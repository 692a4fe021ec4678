import { describe, expect, it } from 'vitest'
import type { Manifest } from '../src/core/trace'
import { type Held, clauses, erf, why } from '../src/core/why'

/** A step that computes `y` by `text` from `inputs`. */
function run(kind: string, text: string, inputs: Record<string, [number[], number[], transposed?: boolean]>, shape: number[], index: number[], extra: object = {}) {
  const held = new Map<string, Held>(Object.entries(inputs).map(([name, [size, data]]) => [name, { shape: size, data: Float32Array.from(data) }]))
  held.set('y', { shape, data: new Float32Array(shape.reduce((a, b) => a * b, 1)) })
  const operands = Object.entries(inputs).map(([symbol, [, , transposed]]) => ({ symbol, tensor: symbol, transposed: !!transposed }))
  const trace = {
    steps: [{ id: 'y', kind, part: 'source', layer: 0, sublayer: 'attend', title: { en: '', zh: '' }, equation: { text, operands }, inputs: operands.map((one) => one.tensor), outputs: ['y'] }],
    tensors: [{ name: 'y', shape, axes: [], stored: true, ...extra }],
  } as unknown as Manifest
  return why(trace, (name) => held.get(name), 'y', index)
}

describe('why a number is what it is', () => {
  it('is a row times a column, and a bias', () => {
    const x: [number[], number[]] = [[2, 2], [1, 2, 3, 4]]
    expect(run('linear', 'Q = N · W + b', { N: x, W: [[2, 3], [1, 2, 3, 4, 5, 6]], b: [[3], [10, 20, 30]] }, [2, 3], [1, 2])?.value).toBe(3 * 3 + 4 * 6 + 30)
    expect(run('linear', 'Q = N · W', { N: x, W: [[3, 2], [1, 2, 3, 4, 5, 6], true] }, [2, 3], [1, 2])?.value).toBe(3 * 5 + 4 * 6)
    expect(run('linear', 'L = N · Wᵀ', { N: x, W: [[3, 2], [1, 2, 3, 4, 5, 6]] }, [2, 3], [0, 1])?.value).toBe(1 * 3 + 2 * 4)
  })
  it("is a query times a key, in a head's own columns, where heads may share", () => {
    const q: [number[], number[]] = [[1, 4], [1, 2, 3, 4]]
    expect(run('scores', 'S = Q · Kᵀ / √4, h = 2', { Q: q, K: [[1, 4], [5, 6, 7, 8]] }, [1, 1, 2], [0, 0, 1])?.value).toBe((3 * 7 + 4 * 8) / 2)
    expect(run('scores', 'S = Q · Kᵀ, h = 2, h_kv = 1', { Q: q, K: [[1, 2], [5, 6]] }, [1, 1, 2], [0, 0, 1])?.value).toBe(3 * 5 + 4 * 6)
    expect(run('scores', 'S = 0.5 · Q · Kᵀ, h = 1', { Q: q, K: [[1, 4], [5, 6, 7, 8]] }, [1, 1, 1], [0, 0, 0])?.value).toBe(35)
  })
  it('is a share of its row', () => {
    const a = run('probs', 'A = softmax(S)', { S: [[1, 2, 2], [0, 9, Math.log(3), 9]] }, [1, 2, 2], [0, 1, 0])
    expect(a?.value).toBeCloseTo(0.75, 6)
  })
  it('is shares times values', () => {
    const a = run('mix', 'O = A · V, h = 2', { A: [[1, 2, 2], [0.25, 1, 0.75, 0]], V: [[2, 4], [1, 2, 3, 4, 5, 6, 7, 8]] }, [1, 4], [0, 1])
    expect(a?.value).toBe(0.25 * 2 + 0.75 * 6)
  })
  it('is a norm, with its gain and its bias', () => {
    const inputs = { X: [[1, 2], [1, 3]] as [number[], number[]], γ: [[2], [2, 4]] as [number[], number[]], β: [[2], [0.5, 0]] as [number[], number[]] }
    expect(run('norm', 'N = γ ⊙ LN(X) + β, ε = 0', inputs, [1, 2], [0, 0])?.value).toBe(-2 + 0.5)
    expect(run('norm', 'N = γ ⊙ RMS(X), ε = 0', { X: inputs.X, γ: inputs.γ }, [1, 2], [0, 1])?.value).toBeCloseTo((4 * 3) / Math.sqrt(5), 12)
    expect(run('norm', 'N = RMS(X), h = 2, ε = 0', { X: inputs.X }, [1, 2], [0, 1])?.value).toBe(1)
  })
  it('is a rotation', () => {
    const inputs = { Q: [[2, 4], [0, 0, 0, 0, 1, 2, 3, 4]] as [number[], number[]], ω: [[1, 2], [1, 0.5]] as [number[], number[]] }
    expect(run('rotate', 'R = RoPE(Q, ω), h = 1, i ↔ i + 2', inputs, [2, 4], [1, 0])?.value).toBeCloseTo(Math.cos(1) - 3 * Math.sin(1), 12)
    expect(run('rotate', 'R = RoPE(Q, ω), h = 1, i ↔ i + 2', inputs, [2, 4], [1, 3])?.value).toBeCloseTo(4 * Math.cos(0.5) + 2 * Math.sin(0.5), 12)
  })
  it('goes number by number', () => {
    const a: [number[], number[]] = [[1, 2], [2, -3]]
    expect(run('add', 'X = A + B', { A: a, B: a }, [1, 2], [0, 1])?.value).toBe(-6)
    expect(run('scale', 'E = √4 · A', { A: a }, [1, 2], [0, 1])?.value).toBe(-6)
    expect(run('activate', 'H = ReLU(A)', { A: a }, [1, 2], [0, 1])?.value).toBe(0)
    expect(run('gate', 'H = SiLU(A) ⊙ B', { A: a, B: a }, [1, 2], [0, 0])?.value).toBeCloseTo((2 / (1 + Math.exp(-2))) * 2, 12)
  })
  it('names what is not there, and does not guess', () => {
    const trace = { steps: [{ id: 'y', kind: 'linear', equation: { text: 'Q = N · W', operands: [{ symbol: 'N', tensor: 'n' }, { symbol: 'W', tensor: 'w' }] }, inputs: ['n', 'w'], outputs: ['y'] }], tensors: [{ name: 'y', shape: [1, 1], axes: [] }] } as unknown as Manifest
    const held: Record<string, Held> = { y: { shape: [1, 1], data: Float32Array.of(1) }, n: { shape: [1, 1], data: Float32Array.of(1) } }
    expect(why(trace, (name) => held[name], 'y', [0, 0])?.arithmetic).toEqual({ kind: 'missing', tensors: ['w'] })
    expect(run('scores', 'S = Q · Kᵀ + B[bucket₁(j − i)], h = 1', { Q: [[1, 1], [1]], K: [[1, 1], [1]] }, [1, 1, 1], [0, 0, 0])?.arithmetic.kind).toBe('whole')
    expect(run('add', 'X = A + B', { A: [[1, 1], [1]] }, [1, 1], [0, 0])?.value).toBeUndefined()
    expect(run('add', 'X = A + A', { A: [[1, 1], [1]] }, [1, 1], [0, 5])).toBeUndefined()
  })
  it('reads formulas by their commas outside of brackets', () => {
    expect(clauses('Q′ = RoPE(Q, ω), h = 6, i ↔ i + 24')).toEqual(['Q′ = RoPE(Q, ω)', 'h = 6', 'i ↔ i + 24'])
  })
  it('has an error function as exact as numbers are', () => {
    for (const [x, y] of [[0.5, 0.5204998778130465], [1, 0.8427007929497149], [2, 0.9953222650189527], [3, 0.9999779095030014], [-1.5, -0.9661051464753108]] as const) {
      expect(Math.abs(erf(x) - y)).toBeLessThan(1e-13)
    }
  })
})
