/** Every token of a rollout, coloured by its surprise for the policy that sampled it. Loaded on demand. */
import type { VNode } from 'preact';
import type { TokensPlace } from '../../../src/viewing/view-wire.ts';
import { LoadedView } from '../frame/states.tsx';
import { useSource } from '../source/source-context.ts';
import { useLoaded } from '../source/use-loaded.ts';
import { Text } from '../text/text.tsx';
import { TokenStream } from './token-stream.tsx';

export function TokensView({ place }: { readonly place: TokensPlace }): VNode {
  const source = useSource();
  const loaded = useLoaded(`tokens ${JSON.stringify(place)}`, () => source.tokens(place));
  return (
    <LoadedView loaded={loaded} what="tokens">
      {(tokens) => (
        <>
          {tokens.problem !== null && (
            <p class="notice">
              <Text text={tokens.problem} />
            </p>
          )}
          <TokenStream key={JSON.stringify(place)} tokens={tokens} />
        </>
      )}
    </LoadedView>
  );
}
