/** Text of models, passages, files and names: only text nodes, with marks for invisible characters. */
import type { VNode } from 'preact';
import { piecesOf } from './marked-text.ts';

export function Text({ text }: { readonly text: string }): VNode {
  return (
    <>
      {piecesOf(text).map((piece) =>
        typeof piece === 'string' ? (
          piece
        ) : (
          <span class="mark" title={piece.name}>
            {piece.symbol}
          </span>
        ),
      )}
    </>
  );
}
