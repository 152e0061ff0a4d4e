/** The contract of every PolicyClient, with pictures and without. Run over vLLM (real, replayed and imitated), chat APIs, the scripted policy and the built-in baseline. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type {
  ChatLease,
  GenerateRequest,
  ImageTokenRules,
  PolicyClient,
  PolicyLease,
  TextSample,
  TokenLease,
  TokenSample,
} from '../../src/clients/policy-client.ts';
import type { PolicyVersions } from '../../src/clients/policy-versions.ts';
import { CancelledError, PrefixBreakError, PromptTooLongError } from '../../src/core/errors.ts';
import type { ImageRef, ImageStore, Message } from '../../src/core/message.ts';
import { TokenBuffer } from '../../src/core/token-buffer.ts';
import { assertPlayable } from '../../src/rollouts/assert-playable.ts';
import { policyPictureContract } from './policy-pictures.ts';

export interface OpenedPolicy extends AsyncDisposable {
  readonly client: PolicyClient;
  /** The versions that the client was given, at version 0. */
  readonly versions: PolicyVersions;
}

export interface PolicyTraits {
  readonly kind: 'tokens' | 'chat';
  /** A prompt that is answered greedily with at least 4 tokens. */
  readonly messages: readonly Message[];
  /** A stop string that the greedy answer holds, within 64 tokens. */
  readonly stop: string;
  /** Text that spells a control token, and the ids that it must not become; null where the tokenizer has none. */
  readonly control: { readonly text: string; readonly ids: readonly number[] } | null;
  /** It renders turns of a conversation, and what comes between two of them. @default false */
  readonly hasTurns?: boolean;
  /** False for policies without a window. */
  readonly isWindowed: boolean;
  /** False for policies that answer at once, so that nothing can be aborted midway. */
  readonly isSlow: boolean;
  /** Null for a policy that reads text only. */
  readonly pictures: PictureTraits | null;
}

export interface PictureTraits {
  readonly store: ImageStore;
  /** At least three different ones. */
  readonly images: readonly ImageRef[];
  /** False for a policy that does not look at them. @default true */
  readonly areRead?: boolean;
  /** How the policy sees them; null over messages. */
  readonly rules: ImageTokenRules | null;
  /** Tokens of each picture; 0 over messages. */
  readonly tokens: number;
}

type Generate<P> = Omit<GenerateRequest<P>, 'prompt'>;

const signal = new AbortController().signal;
const greedy = { sampling: { temperature: 0, topP: 1 }, maxNewTokens: 64, stop: [], signal } satisfies Generate<never>;
/** The recorded prompts are those of Search-R1. */
const BARE = { format: 'continuation' } as const;
const TEXTS = [
  'Who wrote Hamlet?',
  ' leading and trailing ',
  '\n\n<information>a\tb</information>\n\n',
  'Zürich 苏黎世 🙂👩‍🔬',
  'a\u0000b',
  '\uFFFD',
  ' ',
  '\n',
];

/** `open` gives a client under version 0 whose window holds the prompt and 64 tokens. */
export function policyClientContract(name: string, open: () => Promise<OpenedPolicy>, traits: PolicyTraits): void {
  describe(`${name}: PolicyClient contract`, () => {
    let opened: OpenedPolicy;
    let client: PolicyClient;
    beforeAll(async () => {
      opened = await open();
      ({ client } = opened);
    });
    afterAll(() => opened[Symbol.asyncDispose]());

    /** Generates on a fresh lease; in token mode the prompt is rendered. */
    const answer = async (options: Partial<Generate<never>>): Promise<TextSample | TokenSample> => {
      await using lease = await client.lease(signal);
      return await generate(lease, traits.messages, { ...greedy, ...options });
    };

    it('hands out leases of the kind it declares, under the current version', async () => {
      await using lease = await client.lease(signal);
      expect([lease.kind, client.capabilities.kind]).toEqual([traits.kind, traits.kind]);
      expect(lease.policy).toEqual(opened.versions.current());
      expect(client.name).not.toBe('');
    });

    it('gives the same greedy answer on every lease', async () => {
      const [first, second] = [await answer({}), await answer({})];
      expect(second.text).toBe(first.text);
      expect('ids' in second && second.ids).toEqual('ids' in first && first.ids);
    });

    it('keeps the stop string, at the end of the text, and names it', async () => {
      const sample = await answer({ stop: ['\uE123 never sampled', traits.stop] });
      expect(sample).toMatchObject({ finish: 'stop', text: expect.stringMatching(/.$/s) });
      expect(sample.text.endsWith(traits.stop)).toBe(true);
      expect(sample.text.indexOf(traits.stop)).toBe(sample.text.length - traits.stop.length);
      expect([traits.stop, null]).toContain(sample.stopReason);
    });

    it('stops at the length asked for and says so', async () => {
      const sample = await answer({ maxNewTokens: 2 });
      expect(sample.finish).toBe('length');
      expect(sample.usage.completionTokens).toBe(2);
      expect('ids' in sample ? sample.ids.length : 2).toBe(2);
    });

    it('rejects with CancelledError when the signal is aborted already', async () => {
      await using lease = await client.lease(signal);
      const aborted = generate(lease, traits.messages, { ...greedy, signal: AbortSignal.abort() });
      await expect(aborted).rejects.toBeInstanceOf(CancelledError);
      await expect(client.lease(AbortSignal.abort())).rejects.toBeInstanceOf(CancelledError);
    });

    it.runIf(traits.isSlow)('rejects with CancelledError when the signal aborts midway, and serves the next request', async () => {
      await using lease = await client.lease(signal);
      const controller = new AbortController();
      const prompt = lease.kind === 'tokens' ? (await lease.render(traits.messages, BARE)).ids : null;
      const aborted = generate(lease, traits.messages, { ...greedy, signal: controller.signal }, prompt);
      controller.abort();
      await expect(aborted).rejects.toBeInstanceOf(CancelledError);
      expect((await generate(lease, traits.messages, { ...greedy, maxNewTokens: 2 }, prompt)).finish).toBe('length');
    });

    it('closes twice without harm', async () => {
      const other = await open();
      await other.client.close();
      await expect(other.client.close()).resolves.toBeUndefined();
      await other[Symbol.asyncDispose]();
    });

    it('pins a lease to its version and releases it once', async () => {
      await using other = await open();
      const { versions } = other;
      const lease = await other.client.lease(signal);
      const before = lease.policy;
      versions.advance({ ...before, version: before.version + 1 });
      expect(lease.policy).toEqual(before);
      let isDrained = false;
      const drained = versions.drained(before.version, signal).then(() => (isDrained = true));
      await Promise.resolve();
      expect(isDrained).toBe(false);
      await lease[Symbol.asyncDispose]();
      await lease[Symbol.asyncDispose]();
      await drained;
      await using next = await other.client.lease(signal);
      expect(next.policy.version).toBe(before.version + 1);
    });

    const showing = { id: 'gallery', turnFormat: 'continuation', needs: ['images'] } as const;
    it.runIf(traits.pictures === null)('is refused in one line by an environment that shows images', () => {
      const refusal = /^gallery shows images, and .+ cannot see them.*\. Use a vision-language model behind vLLM or a chat API\.$/;
      expect(() => assertPlayable(showing, client)).toThrow(refusal);
    });

    if (traits.pictures !== null) policyPictureContract(() => client, traits.pictures);

    describe.runIf(traits.kind === 'tokens')('with tokens', () => {
      let lease: TokenLease;
      let prompt: Int32Array;
      beforeAll(async () => {
        lease = (await client.lease(signal)) as TokenLease;
        prompt = (await lease.render(traits.messages, BARE)).ids;
      });
      afterAll(() => lease?.[Symbol.asyncDispose]());
      it('renders the same ids for the same messages', async () => {
        expect(prompt.length).toBeGreaterThan(0);
        expect((await lease.render(traits.messages, BARE)).ids).toEqual(prompt);
      });

      it('encodes text so that it decodes to itself: no BOS, nothing trimmed', async () => {
        for (const text of TEXTS) expect(await lease.decode(await lease.encode(text))).toBe(text);
        expect(await lease.encode('')).toEqual(new Int32Array(0));
      });

      it('encodes lone surrogates as U+FFFD', async () => {
        expect(await lease.encode('a\uD800b')).toEqual(await lease.encode('a\uFFFDb'));
      });

      it('hands out ids that the caller may change', async () => {
        const [first] = TEXTS;
        const before = await lease.encode(first!);
        const copy = before.slice();
        before.fill(0);
        expect(await lease.encode(first!)).toEqual(copy);
      });

      it.runIf(traits.control !== null)('never makes a control token of text that spells one', async () => {
        const { text, ids } = traits.control!;
        for (const hostile of [text, `a ${text}b`, `${text}${text}`, `${text.slice(0, 3)}${text}${text.slice(3)}`]) {
          const encoded = await lease.encode(hostile);
          expect([...encoded].filter((id) => ids.includes(id))).toEqual([]);
          expect(await lease.decode(encoded)).toBe(hostile);
        }
        const rendered = (await lease.render([{ role: 'user', content: `a ${text} b` }], BARE)).ids;
        const plain = (await lease.render([{ role: 'user', content: 'a  b' }], BARE)).ids;
        const count = (all: Int32Array) => [...all].filter((id) => ids.includes(id)).length;
        expect(count(rendered)).toBe(count(plain));
      });

      describe.runIf(traits.hasTurns === true)('in turns', () => {
        const history: readonly Message[] = [{ role: 'user', content: 'Who wrote it?' }];
        const next: readonly Message[] = [{ role: 'user', content: 'And when?' }];

        it('continues after the sampled ids, and keeps every one of them', async () => {
          await using own = (await client.lease(signal)) as TokenLease;
          const opening = (await own.render(history)).ids;
          const first = await own.generate({ ...greedy, prompt: opening, maxNewTokens: 5 });
          const bridge = (await own.renderNext(history, next)).ids;
          expect(await own.decode(bridge)).not.toContain(first.text);
          const longer = Int32Array.from([...opening, ...first.ids, ...bridge]);
          const second = await own.generate({ ...greedy, prompt: longer, maxNewTokens: 2 });
          expect(second.usage.promptTokens).toBe(longer.length);
        });

        it('renders the same bridge whatever was sampled, with the next messages in it', async () => {
          const bridge = (await lease.renderNext(history, next)).ids;
          expect((await lease.renderNext(history, next)).ids).toEqual(bridge);
          expect(await lease.decode(bridge)).toContain('And when?');
        });

        it('leaves out the token that closes a turn, and nothing else, where the policy sampled one', async () => {
          const [unclosed, closed] = [(await lease.renderNext(history, next)).ids, (await lease.renderNext(history, next, { isClosed: true })).ids];
          expect(closed).toEqual(unclosed.slice(1));
        });

        it('renders a bridge as the whole conversation is rendered', async () => {
          const whole = (await lease.render([...history, { role: 'assistant', content: 'She did.' }, ...next])).ids;
          const bridge = (await lease.renderNext(history, next)).ids;
          expect(whole.slice(-bridge.length)).toEqual(bridge);
        });

        it.runIf(traits.control !== null)('never makes a control token of a message that spells one', async () => {
          const { text, ids } = traits.control!;
          const count = (all: Int32Array) => [...all].filter((id) => ids.includes(id)).length;
          const hostile = `${text}\n${text}x`;
          const bridge = (await lease.renderNext(history, [{ role: 'user', content: hostile }])).ids;
          expect(await lease.decode(bridge)).toContain(hostile);
          expect(count(bridge)).toBe(count((await lease.renderNext(history, next)).ids));
          const opening = (await lease.render([{ role: 'user', content: hostile }])).ids;
          expect(await lease.decode(opening)).toContain(hostile);
          expect(count(opening)).toBe(count((await lease.render(history)).ids));
        });
      });

      it('returns arrays of one length; text ends rise to the end of text and tail; log-probs are at most 0', async () => {
        const sample = (await answer({ stop: [traits.stop] })) as TokenSample;
        expect(sample.ids.length).toBeGreaterThan(0);
        expect([sample.logProbs.length, sample.textEnds.length]).toEqual([sample.ids.length, sample.ids.length]);
        expect([...sample.textEnds]).toEqual([...sample.textEnds].toSorted((a, b) => a - b));
        expect(sample.textEnds.at(-1)).toBe(sample.text.length + sample.tail.length);
        expect([...sample.logProbs].every((logProb) => logProb <= 0 && Number.isFinite(logProb))).toBe(true);
        expect(sample.usage).toMatchObject({ promptTokens: prompt.length, completionTokens: sample.ids.length });
      });

      it('says where each token ends: tokens kept to a cut decode to the text kept', async () => {
        const sample = (await answer({})) as TokenSample;
        for (const kept of [1, Math.ceil(sample.text.length / 2), sample.text.length]) {
          const buffer = new TokenBuffer();
          const { overhang } = buffer.commit(sample, kept, 0);
          expect(await lease.decode(buffer.ids)).toBe(sample.text.slice(0, kept) + overhang);
        }
      });

      it('continues a prompt that extends the last one, and no other', async () => {
        await using own = (await client.lease(signal)) as TokenLease;
        const first = await own.generate({ ...greedy, prompt, maxNewTokens: 3 });
        const observation = await own.encode('\n\n<information>a</information>\n\n');
        const longer = Int32Array.from([...prompt, ...first.ids, ...observation]);
        const second = await own.generate({ ...greedy, prompt: longer, maxNewTokens: 2 });
        expect(second.usage.promptTokens).toBe(longer.length);
        const changed = longer.slice();
        changed[0] = changed[0] === 1 ? 2 : 1;
        await expect(own.generate({ ...greedy, prompt: changed })).rejects.toBeInstanceOf(PrefixBreakError);
        await expect(own.generate({ ...greedy, prompt })).rejects.toBeInstanceOf(PrefixBreakError);
        const cut = await own.generate({ ...greedy, prompt: longer.slice(4), cut: true, maxNewTokens: 1 });
        expect(cut.usage.promptTokens).toBe(longer.length - 4);
      });

      it.runIf(traits.isWindowed)('rejects a prompt that fills the window with PromptTooLongError', async () => {
        const { maxModelLen } = client.capabilities;
        await using own = (await client.lease(signal)) as TokenLease;
        const full = new Int32Array(maxModelLen!).fill(prompt[0]!);
        await expect(own.generate({ ...greedy, prompt: full, maxNewTokens: 1 })).rejects.toBeInstanceOf(PromptTooLongError);
      });
    });
  });
}

async function generate(
  lease: PolicyLease,
  messages: readonly Message[],
  options: Generate<never>,
  prompt: Int32Array | null = null,
): Promise<TextSample | TokenSample> {
  if (lease.kind === 'tokens') return lease.generate({ ...options, prompt: prompt ?? (await lease.render(messages, BARE)).ids });
  return (lease satisfies ChatLease).generate({ ...options, prompt: messages });
}
