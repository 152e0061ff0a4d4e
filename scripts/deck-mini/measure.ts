/** Measures the place of a word's ink with the renderer that draws it. */
import { Resvg } from '@resvg/resvg-wasm';

/** Relative to the start of the baseline, in pixels. */
export interface Ink {
  readonly left: number;
  readonly right: number;
  /** The place where the next word may begin, without a space. */
  readonly advance: number;
}

export type Measure = (word: string, size: number) => Ink;

/** Words are measured at this size and scaled. */
const SIZE = 100;

/** Measures words of one font; each is measured once. `initWasm` of resvg must have run. */
export function createMeasure(font: Uint8Array): Measure {
  const known = new Map<string, Ink>();
  return (word, size) => {
    let ink = known.get(word);
    if (ink === undefined) {
      ink = measured(word, font);
      known.set(word, ink);
    }
    const scale = size / SIZE;
    return { left: ink.left * scale, right: ink.right * scale, advance: ink.advance * scale };
  };
}

function measured(word: string, font: Uint8Array): Ink {
  const text = word.replaceAll('&', '&amp;').replaceAll('<', '&lt;');
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" width="4000" height="400" font-family="DejaVu Sans"><text x="100" y="200" font-size="${SIZE}">${text}</text></svg>`;
  const drawing = new Resvg(svg, { font: { fontBuffers: [font], defaultFontFamily: 'DejaVu Sans' } });
  try {
    const box = drawing.getBBox();
    if (box === undefined) throw new Error(`The font draws nothing for ${JSON.stringify(word)}.`);
    const [left, right] = [box.x - 100, box.x + box.width - 100];
    return { left, right, advance: right + Math.max(0, left) };
  } finally {
    drawing.free();
  }
}
