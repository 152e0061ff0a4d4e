/** Text and images of a message or turn. */
import type { VNode } from 'preact';
import type { Content } from '../../../src/viewing/view-wire.ts';
import { useSource } from '../source/source-context.ts';
import { LongText } from '../text/long-text.tsx';

export interface ContentsProps {
  readonly content: readonly Content[];
  readonly run: string;
  readonly tagged?: boolean;
}

export function Contents({ content, run, tagged = false }: ContentsProps): VNode {
  return (
    <>
      {content.map((part, i) =>
        part.type === 'image' ? (
          <Picture key={i} image={part} run={run} />
        ) : (
          <div class="said" key={i} dir="auto">
            <LongText text={part.text.replace(/^\n+|\n+$/g, '')} tagged={tagged} />
          </div>
        ),
      )}
    </>
  );
}

function Picture({ image, run }: { readonly image: Extract<Content, { type: 'image' }>; readonly run: string }): VNode {
  const source = useSource();
  const size = `${image.width} \u00d7 ${image.height}`;
  return (
    <figure class="picture">
      <img src={source.image(run, image.sha256)} width={image.width} height={image.height} loading="lazy" alt={`Image, ${size} pixels`} />
      <figcaption>
        {size} <code>{image.sha256.slice(0, 12)}</code>
      </figcaption>
    </figure>
  );
}
