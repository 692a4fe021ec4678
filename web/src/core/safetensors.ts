// Reads a safetensors file. It comes from disk or from a server, so every number in its header is checked.

export type Data = Float32Array
export interface Tensor {
  shape: number[]
  data: Data
}

export class Unreadable extends Error {}

/** The tensors of a file. Only f32 is a trace's type. */
export function safetensors(buffer: ArrayBuffer): Map<string, Tensor> {
  if (buffer.byteLength < 8) throw new Unreadable('the tensors are cut off')
  const length = new DataView(buffer).getBigUint64(0, true)
  if (length > BigInt(buffer.byteLength - 8)) throw new Unreadable('the tensors are cut off')
  const header: unknown = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(new Uint8Array(buffer, 8, Number(length))))
  if (typeof header !== 'object' || header === null) throw new Unreadable('the tensors have no header')
  const begin = 8 + Number(length)
  const tensors = new Map<string, Tensor>()
  for (const [name, entry] of Object.entries(header)) {
    if (name === '__metadata__') continue
    const { dtype, shape, data_offsets: offsets } = entry as { dtype?: unknown; shape?: unknown; data_offsets?: unknown }
    if (dtype !== 'F32') throw new Unreadable(`${name} is not f32`)
    if (!isCounts(shape) || !isCounts(offsets) || offsets.length !== 2) throw new Unreadable(`${name} has no shape`)
    const [from = 0, to = 0] = offsets
    const count = shape.reduce((a, b) => a * b, 1)
    if (to - from !== 4 * count || begin + to > buffer.byteLength) throw new Unreadable(`${name} is cut off`)
    tensors.set(name, { shape: [...shape], data: floats(buffer, begin + from, count) })
  }
  return tensors
}

const isCounts = (x: unknown): x is number[] =>
  Array.isArray(x) && x.every((n) => Number.isSafeInteger(n) && (n as number) >= 0)

/** `count` numbers at `from`, without a copy where they are aligned. */
export function floats(buffer: ArrayBuffer, from: number, count: number): Data {
  if (from % 4 === 0) return new Float32Array(buffer, from, count)
  return new Float32Array(buffer.slice(from, from + 4 * count))
}

/** What base64 stands for. */
export function base64(text: string): ArrayBuffer {
  const raw = atob(text.trim())
  const bytes = new Uint8Array(raw.length)
  for (let k = 0; k < raw.length; k++) bytes[k] = raw.charCodeAt(k)
  return bytes.buffer
}
