import type { EnvResponse } from 'vf-search';
import { contentImages } from 'vf-search/environment-kit';
import type { Shown } from './reading.ts';

/** The trace's fields of a shown picture: page, area, size, and the words or the digests of the pictures that the policy saw. */
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
