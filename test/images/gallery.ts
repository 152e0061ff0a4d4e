/** An environment for tests: shows a painted picture with the question and another one after every turn of the policy. `vf-eval test/images/gallery.ts` plays it. */
import { Dataset, type EnvResponse, type EpisodeState, type LoadContext, MultiTurnEnv, type Row, Rubric } from 'vf-search';
import type { ImageStore } from 'vf-search/environment-kit';
import { paintedPng } from './painted-png.ts';

interface GalleryArguments {
  /** @default 2 */
  readonly rows?: number;
  /** @default 3 */
  readonly turns?: number;
  /** Sizes in pixels, which take turns. @default three sizes that no unit divides */
  readonly sizes?: readonly (readonly [width: number, height: number])[];
  /** The question comes without a picture. @default false */
  readonly plainQuestion?: boolean;
  /** Every row shows the same pictures. @default false */
  readonly isShared?: boolean;
}

const SIZES = [
  [128, 96],
  [101, 77],
  [64, 192],
] as const;

interface GalleryState extends EpisodeState {
  readonly row: number;
}

class Gallery extends MultiTurnEnv<Row, GalleryState> {
  readonly #show: (row: number, turn: number) => Promise<EnvResponse>;

  constructor(rows: readonly Row[], { turns = 3 }: GalleryArguments, images: ImageStore, show: (row: number, turn: number) => Promise<EnvResponse>) {
    const length = ({ modelText }: { modelText: string }) => modelText.length;
    const data = new Dataset('gallery', rows);
    super({ id: 'gallery', train: data, eval: data, rubric: new Rubric({ funcs: [length] }), maxTurns: turns, images });
    this.#show = show;
  }

  protected setupState({ exampleId }: Row): GalleryState {
    return { turns: 0, row: Number(exampleId) };
  }

  protected envResponse(_kept: string, { row, turns }: GalleryState): Promise<EnvResponse> {
    return this.#show(row, turns);
  }
}

export async function loadEnvironment(args: GalleryArguments, { images }: Pick<LoadContext, 'images'>): Promise<MultiTurnEnv> {
  const { rows = 2, sizes = SIZES, plainQuestion = false, isShared = false } = args;
  const paint = (row: number, turn: number) => {
    const [width, height] = sizes[turn % sizes.length]!;
    const seed = isShared ? turn : 100 * row + turn;
    return images.put(paintedPng(width, height, seed), { mediaType: 'image/png', width, height });
  };
  const question = async (row: number) => {
    const text = { type: 'text' as const, text: 'What is shown?' };
    return plainQuestion ? [text] : [{ type: 'image' as const, image: await paint(row, 0) }, text];
  };
  const made = Array.from({ length: rows }, async (_, row) => ({
    exampleId: row,
    prompt: [{ role: 'user' as const, content: await question(row) }],
  }));
  return new Gallery(await Promise.all(made), args, images, async (row, turn) => ({
    messages: [
      {
        role: 'user',
        content: [
          { type: 'text', text: 'Look: ' },
          { type: 'image', image: await paint(row, turn) },
          { type: 'text', text: ' And now?' },
        ],
      },
    ],
  }));
}
