/** Cuts a sample after its first call, for an agent that takes one call a turn. A stop string would do so too, but it would also end a turn that only mentions the tag. */
import type { PolicyCapabilities, TokenSample } from '../clients/policy-client.ts';
import { countThrough } from '../core/token-buffer.ts';
import { spansBetween } from '../core/version-spans.ts';
import { endOfFirstCall } from '../core/tool-calls.ts';

/**
 * The sample through the token that ends its first call, as if it had stopped there; the sample itself if no other call follows.
 * @param opening text that stands before the sample in its turn
 * @param callsFrom index in the whole turn; what stands before it only mentions calls
 */
export function untilSecondCall(
  sample: TokenSample,
  { opening, callsFrom, toolCalls }: { readonly opening: string; readonly callsFrom: number } & Pick<PolicyCapabilities, 'toolCalls'>,
): TokenSample {
  if (toolCalls === undefined || toolCalls === null || toolCalls === 'structured') return sample;
  const end = endOfFirstCall((opening + sample.text).slice(callsFrom), toolCalls);
  if (end === -1) return sample;
  const kept = callsFrom + end - opening.length;
  const count = countThrough(sample, kept);
  const { text, tail, ids, logProbs, textEnds, likeliest, versions } = sample;
  return {
    ...sample,
    text: text.slice(0, kept),
    tail: (text + tail).slice(kept, textEnds[count - 1]),
    ids: ids.slice(0, count),
    logProbs: logProbs.slice(0, count),
    textEnds: textEnds.slice(0, count),
    ...(likeliest === undefined ? {} : { likeliest: likeliest.slice(0, count) }),
    ...(versions === undefined ? {} : { versions: spansBetween(versions, 0, count) }),
    finish: 'stop',
    stopReason: null,
  };
}
