// Colour maps, as 256 steps in a perceptually even space (OKLab). Shares go from paper to one dark hue (in the dark: to a light
// one); signed numbers from blue over paper to orange, and zero is exactly paper.

export type Theme = 'light' | 'dark'
type Lab = readonly [number, number, number]

const toLinear = (c: number): number => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
const fromLinear = (c: number): number => (c <= 0.0031308 ? 12.92 * c : 1.055 * c ** (1 / 2.4) - 0.055)

function channels(hex: string): [number, number, number] {
  const value = Number.parseInt(hex.slice(1), 16)
  return [value >> 16, (value >> 8) & 255, value & 255]
}

/** A colour in OKLab. */
export function lab(hex: string): Lab {
  const [r = 0, g = 0, b = 0] = channels(hex).map((c) => toLinear(c / 255))
  const l = Math.cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b)
  const m = Math.cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b)
  const s = Math.cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b)
  return [
    0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s,
    1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s,
    0.0259040371 * l + 0.7827717662 * m - 0.808675766 * s,
  ]
}

function rgb([L, a, b]: Lab): [number, number, number] {
  const l = (L + 0.3963377774 * a + 0.2158037573 * b) ** 3
  const m = (L - 0.1055613458 * a - 0.0638541728 * b) ** 3
  const s = (L - 0.0894841775 * a - 1.291485548 * b) ** 3
  const linear = [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ] as const
  const byte = (c: number): number => Math.round(255 * Math.min(1, Math.max(0, fromLinear(c))))
  return [byte(linear[0]), byte(linear[1]), byte(linear[2])]
}

/** Stops at equal distances, and `count` colours between them, as pixels (red in the lowest byte). */
function ramp(stops: readonly string[], count: number): Uint32Array {
  const labs = stops.map(lab)
  const pixels = new Uint32Array(count)
  for (let k = 0; k < count; k++) {
    const at = (k / (count - 1)) * (labs.length - 1)
    const low = Math.min(labs.length - 2, Math.floor(at))
    const [from, to] = [labs[low] as Lab, labs[low + 1] as Lab]
    const mixed = from.map((x, c) => x + (at - low) * ((to[c] as number) - x)) as unknown as Lab
    const exact = at === low ? stops[low] : at === low + 1 ? stops[low + 1] : undefined
    const [r, g, b] = exact === undefined ? rgb(mixed) : channels(exact)
    pixels[k] = ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0
  }
  return pixels
}

export interface Palette {
  /** 256 colours for 0 … 1. */
  share: Uint32Array
  /** 257 colours for −1 … 1; the one in the middle is paper. */
  signed: Uint32Array
  paper: string
  ink: string
}

const make = (paper: string, ink: string, shares: string[], signed: string[]): Palette => ({
  share: ramp(shares, 256),
  signed: ramp(signed, 257),
  paper,
  ink,
})

export const PALETTES: Record<Theme, Palette> = {
  light: make(
    '#fbfaf7',
    '#1b1c20',
    ['#fbfaf7', '#b9cbec', '#7394d6', '#3d5fae', '#14285f'],
    ['#153a8a', '#7da0dc', '#fbfaf7', '#f0a05a', '#9a3d06'],
  ),
  dark: make(
    '#14151a',
    '#eceae4',
    ['#14151a', '#2b3a63', '#4b68ad', '#86a6ee', '#e6eeff'],
    ['#a9c5ff', '#4a6cb5', '#14151a', '#b0652a', '#ffc48d'],
  ),
}

/** The colour's place in `share`. */
export const shareIndex = (x: number): number => (x > 0 ? (x < 1 ? (x * 255 + 0.5) | 0 : 255) : 0)

/** The colour's place in `signed`, where `scale` is the end of the map. */
export function signedIndex(x: number, scale: number): number {
  const k = (x / scale) * 128
  return k >= 128 ? 256 : k <= -128 ? 0 : Math.round(k + 128)
}

/** A pixel as a colour of CSS. */
export function css(pixel: number): string {
  return `#${[pixel & 255, (pixel >> 8) & 255, (pixel >> 16) & 255].map((c) => c.toString(16).padStart(2, '0')).join('')}`
}

/** Relative luminance, as contrast is measured by. */
export function luminance(hex: string): number {
  const [r = 0, g = 0, b = 0] = channels(hex).map((c) => toLinear(c / 255))
  return 0.2126 * r + 0.7152 * g + 0.0722 * b
}

export function contrast(a: string, b: string): number {
  const [x, y] = [luminance(a), luminance(b)]
  return (Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05)
}

/** Ink that can be read on `background`: one of black and white always has a contrast of 4.5 to 1. */
export function inkOn(background: string): string {
  return ['#16171b', '#ffffff'].find((ink) => contrast(background, ink) >= 4.5) ?? '#000000'
}
