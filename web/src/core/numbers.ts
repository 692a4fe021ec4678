// Numbers as text: four significant digits, a true minus. Nothing is computed here, numbers are only written.

const MINUS = '−'
const UP = '⁰¹²³⁴⁵⁶⁷⁸⁹'

const minus = (text: string): string => text.replace('-', MINUS)

function power(exponent: number): string {
  const digits = [...String(Math.abs(exponent))].map((digit) => UP[Number(digit)]).join('')
  return `10${exponent < 0 ? '⁻' : ''}${digits}`
}

/** −∞, ∞ and what is no number. */
function strange(x: number): string | undefined {
  if (Number.isNaN(x)) return 'NaN'
  if (x === Infinity) return '∞'
  if (x === -Infinity) return `${MINUS}∞`
  return undefined
}

/** A number with four significant digits. */
export function number(x: number, digits = 4): string {
  const odd = strange(x)
  if (odd !== undefined) return odd
  if (x === 0) return '0'
  const size = Math.abs(x)
  if (size >= 1e6 || size < 1e-4) {
    const [mantissa = '', exponent = '0'] = x.toExponential(digits - 1).split('e')
    return minus(`${mantissa}·${power(Number(exponent))}`)
  }
  return minus(x.toPrecision(Math.max(digits, Math.ceil(Math.log10(size + 1)))))
}

/** How many digits stand behind the point in a table whose largest number is `largest`, so that points are below each other. */
export function decimals(largest: number): number {
  if (!Number.isFinite(largest) || largest <= 0) return 3
  return Math.min(6, Math.max(0, 3 - Math.floor(Math.log10(largest))))
}

/** A number with `places` digits behind the point. */
export function fixed(x: number, places: number): string {
  const text = strange(x) ?? minus(x.toFixed(places))
  return /^−0\.?0*$/.test(text) ? text.slice(1) : text
}

/** A share: `.83`, `1`, `0`. */
export function share(x: number, places = 2): string {
  const odd = strange(x)
  if (odd !== undefined) return odd
  const text = x.toFixed(places)
  return Number(text) === 0 ? '0' : text.replace(/^0/, '').replace(/^1\.0*$/, '1')
}

/** 9876543 as 9.88M: how large something is. */
export function size(x: number): string {
  for (const [unit, sign] of [[1e12, 'T'], [1e9, 'B'], [1e6, 'M'], [1e3, 'k']] as const) {
    if (x >= unit) return `${(x / unit).toPrecision(3)}${sign}`
  }
  return String(x)
}

/** Bytes. */
export function bytes(x: number): string {
  for (const [unit, sign] of [[1e9, 'GB'], [1e6, 'MB'], [1e3, 'kB']] as const) {
    if (x >= unit) return `${(x / unit).toPrecision(3)} ${sign}`
  }
  return `${x} B`
}
