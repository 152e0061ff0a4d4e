/** Tokens in their order. Grey ones were given to the policy; the others are coloured by -log p. One listener serves all of them. */
import type { VNode } from 'preact';
import { useMemo, useRef, useState } from 'preact/hooks';
import type { RolloutTokens } from '../../../src/viewing/view-wire.ts';
import { formatCount, formatNumber } from '../figures/numbers.ts';
import { useKeys } from '../keys/keys.tsx';
import { Text } from '../text/text.tsx';
import { surpriseClass, SurpriseLegend } from './surprise-legend.tsx';

/** Tokens drawn at once. */
const MOST_TOKENS = 20_000;
const BLOCK_TOKENS = 400;
/** A surprise, in nats: the policy gave the token less than a chance of 1 in e. */
const SURPRISE_NATS = 1;

export function TokenStream({ tokens }: { readonly tokens: RolloutTokens }): VNode {
  const frame = useRef<HTMLDivElement>(null);
  const [at, setAt] = useState<number | null>(null);
  const [all, setAll] = useState(false);
  const count = all ? tokens.ids.length : Math.min(MOST_TOKENS, tokens.ids.length);
  const surprises = useMemo(() => surprisesOf(tokens), [tokens]);
  const walk = (by: 1 | -1) => {
    const from = at ?? (by === 1 ? -1 : Infinity);
    const next = by === 1 ? surprises.find((i) => i > from) : surprises.findLast((i) => i < from);
    if (next === undefined) return;
    setAt(next);
    frame.current?.querySelector(`[data-token="${next}"]`)?.scrollIntoView({ block: 'center' });
  };
  useKeys([
    { keys: ['n'], does: 'Next surprising token', run: () => walk(1) },
    { keys: ['p'], does: 'Previous surprising token', run: () => walk(-1) },
  ]);
  const point = (event: Event) => {
    const token = event.target instanceof Element ? event.target.closest<HTMLElement>('[data-token]') : null;
    if (token !== null) setAt(Number(token.dataset['token']));
  };
  return (
    <div class="tokens">
      <div class="tokens-head">
        <SurpriseLegend />
        <span class="quiet-text">
          {formatCount(tokens.mask.reduce<number>((sum, one) => sum + one, 0))} sampled of {formatCount(tokens.ids.length)};{' '}
          {formatCount(surprises.length)} above {SURPRISE_NATS} nat (keys n, p)
        </span>
        <TokenFacts tokens={tokens} at={at} />
      </div>
      <div ref={frame} class={tokens.texts === null ? 'token-stream ids' : 'token-stream'} onPointerOver={point} onClick={point}>
        <TokenBlocks tokens={tokens} count={count} at={at} />
      </div>
      {count < tokens.ids.length && (
        <button type="button" class="fold-button" onClick={() => setAll(true)}>
          Show all {formatCount(tokens.ids.length)} tokens
        </button>
      )}
    </div>
  );
}

function surprisesOf({ log_probs: logProbs }: RolloutTokens): number[] {
  return logProbs.flatMap((logProb, i) => (logProb !== null && -logProb >= SURPRISE_NATS ? [i] : []));
}

function TokenBlocks({ tokens, count, at }: { readonly tokens: RolloutTokens; readonly count: number; readonly at: number | null }): VNode {
  const starts: number[] = [];
  for (let from = 0; from < count; from += BLOCK_TOKENS) starts.push(from);
  return (
    <>
      {starts.map((from) => {
        const end = Math.min(count, from + BLOCK_TOKENS);
        return <TokenBlock key={from} tokens={tokens} from={from} end={end} at={at !== null && at >= from && at < end ? at : null} />;
      })}
    </>
  );
}

interface TokenBlockProps {
  readonly tokens: RolloutTokens;
  readonly from: number;
  readonly end: number;
  readonly at: number | null;
}

function TokenBlock({ tokens, from, end, at }: TokenBlockProps): VNode {
  return useMemo(() => {
    const spans: VNode[] = [];
    for (let i = from; i < end; i++) {
      const given = tokens.mask[i] === 0;
      const style = given ? 'token given' : `token ${surpriseClass(tokens.log_probs[i] ?? null)}`;
      const text = tokens.texts?.[i];
      spans.push(
        <span key={i} data-token={i} class={`${style}${i === at ? ' at' : ''}${i === tokens.prompt_length ? ' first' : ''}`}>
          {text === undefined ? `${tokens.ids[i]} ` : <Text text={text} />}
        </span>,
      );
    }
    return <span class="token-block">{spans}</span>;
  }, [tokens, from, end, at]);
}

function TokenFacts({ tokens, at }: { readonly tokens: RolloutTokens; readonly at: number | null }): VNode {
  if (at === null) return <div class="token-facts quiet-text">Point at a token for its log-prob.</div>;
  const logProb = tokens.log_probs[at] ?? null;
  const text = tokens.texts?.[at];
  return (
    <div class="token-facts" role="status">
      <span class="quiet-text">
        {formatCount(at)} · id {tokens.ids[at]}
      </span>
      {text !== undefined && (
        <code>
          <Text text={JSON.stringify(text)} />
        </code>
      )}
      {tokens.mask[at] === 0 ? (
        <span>given</span>
      ) : logProb === null ? (
        <span>sampled, no log-prob</span>
      ) : (
        <span>
          log p {formatNumber(logProb)} · p {formatNumber(Math.exp(logProb))}
        </span>
      )}
    </div>
  );
}
