// The bits of an f32: what a printed number carries, so that a test can hold it against the trace.

const view = new DataView(new ArrayBuffer(4))

/** Eight hexadecimal digits. */
export function bits(x: number): string {
  view.setFloat32(0, x)
  return view.getUint32(0).toString(16).padStart(8, '0')
}
