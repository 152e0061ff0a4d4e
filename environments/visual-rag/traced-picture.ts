import { contentImages, type EnvResponse } from 'vf-search';
import type { Shown } from './reading.ts';

/** A shown picture in the trace: which part of which page, and what the policy saw of it: words, or pictures by their digests. */
export function tracedPicture({ page, area, size }: Shown, { observation, messages = [] }: EnvResponse) {
  const images = messages.flatMap(({ content }) => contentImages(content).map(({ sha256 }) => sha256));
  return {
    page,
    ...(area === null ? {} : { area }),
    size: [size.width, size.height],
    ...(observation === undefined ? {} : { text: observation }),
    ...(images.length === 0 ? {} : { images }),
  };
}
