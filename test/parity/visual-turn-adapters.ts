/** Adapters for the turns of the visual-document searcher: DDAI's and VRAG's format gates, actions, boxes, picture sizes, pages and observations. */
import {
  ACTIONS,
  assistantTurns,
  type Box,
  checkFormat,
  checkVragFormat,
  cropArea,
  extractAnswer,
  fitPixels,
  FORCED_COMPLETION,
  imageTokens,
  INVALID_ACTION,
  invalidBox,
  nextPage,
  NO_PAGE,
  padded,
  parseAction,
  parseBox,
  SHOWN_PIXELS,
  type Size,
  smartResize,
  withoutUserTurns,
} from 'vf-search/environments/visual-rag';
import { findBlock } from 'vf-search/metrics/tag-blocks';
import type { Adapter } from './vectors.ts';

interface Text {
  readonly text: string;
}

const UPSTREAM_UNIT = 28;
/** The bounds with which Qwen2.5-VL's image processor is released. */
const PROCESSOR = { unit: UPSTREAM_UNIT, minPixels: 3136, maxPixels: 12_845_056 };
const VALIDATION_PADDING = 28;

const format: Adapter = {
  actual: ({ text }: Text) => {
    const { pass, reason } = checkFormat(assistantTurns(text));
    return { score: Number(pass), reason };
  },
};

const vragFormat: Adapter = {
  actual: ({ text }: Text) => ({ score: Number(checkVragFormat(text)), answer: extractAnswer(text), without_user: withoutUserTurns(text) }),
};

const action: Adapter = {
  actual: ({ text }: Text) => ({ ...parseAction(text), kept: withinTags(text) }),
};

const bbox: Adapter = {
  actual: (input: { content: string; shown: [number, number]; raw: [number, number]; validation: boolean }) => {
    const box = parseBox(input.content);
    if (box === null) return { outcome: 'bad_box' };
    const [shown, page] = [sizeOf(input.shown), sizeOf(input.raw)];
    const area = cropArea(input.validation ? padded(box, VALIDATION_PADDING) : box, { shown, page });
    if (area === null) return { outcome: isFiniteValue(box) ? 'no_area' : 'failed', area: null };
    const size = fitPixels({ width: area[2] - area[0], height: area[3] - area[1] }, SHOWN_PIXELS);
    const resized = smartResize(size, PROCESSOR);
    if (resized === null) return { outcome: 'failed', area: null };
    return { outcome: 'crop', area, size: [size.width, size.height], image_tokens: imageTokens(resized, UPSTREAM_UNIT) };
  },
};

const pixelRange: Adapter = {
  actual: ({ width, height, max_pixels: maxPixels, min_pixels: minPixels }: Size & { max_pixels: number; min_pixels: number }) =>
    fitPixels({ width, height }, { maxPixels, minPixels }),
};

const resize: Adapter = {
  actual: (input: Size & { factor: number; min_pixels: number; max_pixels: number }) => {
    const { factor: unit, min_pixels: minPixels, max_pixels: maxPixels } = input;
    const size = smartResize(input, { unit, minPixels, maxPixels });
    return size === null ? { error: 'aspect' } : { ...size, image_tokens: imageTokens(size, unit) };
  },
};

const pages: Adapter = {
  actual: ({ searches }: { searches: readonly (readonly string[])[] }) => {
    const retrieved: string[] = [];
    const chosen = searches.map((results) => {
      const { page, isNew } = nextPage(results, retrieved);
      if (page !== null && isNew) retrieved.push(page);
      return page;
    });
    return { chosen, retrieved };
  },
};

const TEXTS: Readonly<Record<string, string>> = {
  invalid_action: asUserTurn(INVALID_ACTION),
  invalid_bbox: asUserTurn(invalidBox()),
  invalid_bbox_reason: asUserTurn(invalidBox('x1 >= x2')),
  forced_completion: FORCED_COMPLETION,
  crop_before_search: asUserTurn(NO_PAGE),
};

const texts: Adapter = {
  actual: ({ kind }: { kind: string }) => ({ text: TEXTS[kind] }),
  declared: ({ input }) =>
    (input as { kind: string }).kind === 'invalid_action' ? 'upstream misspells the closing tag of search_complete; ours writes it right' : undefined,
};

export const visualTurnAdapters: Readonly<Record<string, Adapter>> = {
  visual_action: action,
  visual_answer: { actual: ({ text }: Text) => ({ answer: extractAnswer(text) }) },
  visual_bbox: bbox,
  visual_format: format,
  visual_next_page: pages,
  visual_pixel_range: pixelRange,
  visual_smart_resize: resize,
  visual_texts: texts,
  visual_vrag_format: vragFormat,
};

/** Upstream's turn without what stands outside its tags, one block a line. Ours keeps the tokens as they were sampled. */
function withinTags(text: string): string {
  const blocks: string[] = [];
  for (let at = 0; ;) {
    const [next] = ['think', ...ACTIONS]
      .map((tag) => findBlock(text, tag, at))
      .filter((block) => block !== null)
      .toSorted((a, b) => a.start - b.start);
    if (next === undefined) return blocks.join('\n');
    blocks.push(text.slice(next.start, next.end));
    at = next.end;
  }
}

function asUserTurn(text: string): string {
  return `\n<|im_start|>user\n${text}<|im_end|>\n<|im_start|>assistant\n`;
}

function sizeOf([width, height]: readonly [number, number]): Size {
  return { width, height };
}

function isFiniteValue(box: Box): boolean {
  return box.every((value) => Number.isFinite(value));
}
