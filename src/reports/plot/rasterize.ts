/** Converts SVG to PNG with resvg in WebAssembly and the bundled font, because bare machines have no fonts. */
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { Resvg, initWasm } from '@resvg/resvg-wasm';

export interface RasterOptions {
  /** Width of the image in pixels; the height follows. Default: 1600, sharp on dense screens at a displayed width of 800. */
  readonly width?: number;
}

export interface RasterImage {
  readonly width: number;
  readonly height: number;
  readonly png: Uint8Array;
  /** Red, green, blue and opacity of each pixel, row by row. [height × width × 4] */
  readonly pixels: Uint8Array;
}

let renderer: Promise<Uint8Array> | undefined;

/** Loads renderer and font, once per process. */
async function loadRenderer(): Promise<Uint8Array> {
  const wasm = await readFile(fileURLToPath(import.meta.resolve('@resvg/resvg-wasm/index_bg.wasm')));
  await initWasm(wasm);
  return readFile(new URL('./dejavu-sans-subset.ttf', import.meta.url));
}

export async function rasterize(svg: string, { width = 1600 }: RasterOptions = {}): Promise<RasterImage> {
  renderer ??= loadRenderer();
  const font = await renderer;
  const drawing = new Resvg(svg, {
    fitTo: { mode: 'width', value: width },
    font: { fontBuffers: [font], defaultFontFamily: 'DejaVu Sans', sansSerifFamily: 'DejaVu Sans' },
  });
  try {
    const image = drawing.render();
    try {
      return { width: image.width, height: image.height, png: image.asPng(), pixels: image.pixels };
    } finally {
      image.free();
    }
  } finally {
    drawing.free();
  }
}
