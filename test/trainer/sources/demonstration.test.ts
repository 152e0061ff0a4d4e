import { afterAll, describe, expect, it } from 'vitest';
import { PolicyVersions } from '../../../src/clients/policy-versions.ts';
import { openDemonstrationTokenizer } from '../../../src/sessions/training/demonstration-tokenizer.ts';
import { ScriptedClient } from '../../../src/clients/scripted.ts';
import { ConfigError } from '../../../src/core/errors.ts';
import { runRollouts } from '../../../src/rollouts/run-rollouts.ts';
import type { DemonstrationRow, DemonstrationSegment } from '../../../src/schemas/demonstration-row.ts';
import { demonstrationOf, type DemonstrationTokenizer } from '../../../src/trainer/sources/demonstration.ts';
import { CountingEnv } from '../../rollouts/counting-env.ts';
import { published, writeTemplateModel } from '../../tokenizer/template-models.ts';
import { NANO_BASE } from '../gradients/torch/torch-python.ts';
import { temporaryFolder } from '../publisher/adapter-files.ts';

const folder = temporaryFolder();
afterAll(() => folder.remove());
const signal = new AbortController().signal;

/** The tokenizer of the scripted policy, one token a byte, as a lease gives it. */
async function scripted(changes: Partial<DemonstrationTokenizer> = {}): Promise<DemonstrationTokenizer> {
  const client = new ScriptedClient({ turns: () => '', versions: new PolicyVersions({ version: 0, model: 'scripted' }) });
  const lease = await client.lease(signal);
  if (lease.kind !== 'tokens') throw new Error('Expected a policy by token ids');
  return {
    render: (messages, options) => lease.render(messages, options),
    renderNext: (history, next, options) => lease.renderNext(history, next, options),
    encode: (text) => lease.encode(text),
    closingTokenId: null,
    tokenizerHash: null,
    turnFormat: 'continuation',
    ...changes,
  };
}

/** The tokenizer of the nano model with ChatML, on this machine. */
const nano = (): Promise<DemonstrationTokenizer> => openDemonstrationTokenizer(NANO_BASE, 'chat');

const of = (row: DemonstrationRow, tokenizer: DemonstrationTokenizer) => demonstrationOf({ row, place: 'rows.jsonl:3' }, tokenizer);
const text = (ids: Int32Array) => Buffer.from(Uint8Array.from(ids)).toString();

describe('demonstrationOf', () => {
  it('gives the texts of a rollout the ids that the rollout had, and its targets', async () => {
    const environment = new CountingEnv({ rows: 1, maxTurns: 3 });
    const client = new ScriptedClient({ turns: ['one;', 'two;', 'stop;'], logProb: () => -1 });
    const options = { maxTokens: null, maxConcurrent: 1, timeoutMs: null, seed: 0, sampling: { temperature: 1, topP: 1 }, signal };
    let compared = 0;
    for await (const { rollouts } of runRollouts([{ row: environment.eval.at(0), indices: [0] }], { environment, client, ...options })) {
      const { prompt, segments, branches, error } = rollouts[0]!;
      const { tokens } = branches[0]!;
      expect(error).toBeNull();
      const messages = prompt.map(({ role, content }) => ({ role: role as 'user', content: content as string }));
      const made = await of({ prompt: messages, segments: segments.map(({ kind, text: own }) => ({ kind, text: own })) }, await scripted());
      expect([...made.ids]).toEqual([...tokens!.ids]);
      expect([...made.targets]).toEqual([...tokens!.mask.keys()].filter((at) => tokens!.mask[at] === 1));
      expect(made).toMatchObject({ reward: null, error: null, logProbs: null, role: 'policy', turns: 3 });
      expect(made.weights).toBeUndefined();
      compared++;
    }
    expect(compared).toBe(1);
  });

  it('leaves out what the template writes at the beginning of every turn, which a recorded text has once more', async () => {
    const directory = writeTemplateModel(folder.path, published('qwen-3-5'));
    const tokenizer = await openDemonstrationTokenizer(directory, 'chat');
    const user = (content: string) => ({ role: 'user' as const, content });
    const assistant = (content: string) => ({ role: 'assistant' as const, content });
    const sampled = async (row: DemonstrationRow) => [...(await of(row, tokenizer)).ids];
    const prompt = [user('Who?')];
    for (const written of ['<think>\na</think>b', '<think>a</think>b', '<think>\n\na</think>b'])
      expect(await sampled({ prompt, completion: written })).toEqual(
        await sampled({ prompt, completion: written.replace(/^<think>\n?\n?/, written.includes('\n\n') ? '\n' : '') }),
      );
    const turns = (open: string) => ({ messages: [user('Who?'), assistant(`${open}a</think>b`), user('When?'), assistant(`${open}c</think>d`)] });
    expect(await sampled(turns('<think>\n'))).toEqual(await sampled(turns('')));
  });

  it('puts the images of token ids into the run, at the places that the row names', async () => {
    const image = { sha256: 'a'.repeat(64), media_type: 'image/png', width: 56, height: 28, offset: 1, length: 2 };
    const row = { token_ids: [1, 9, 9, 2, 3], loss_mask: [0, 0, 0, 1, 1] as (0 | 1)[], images: [image] };
    const asked: string[] = [];
    const ref = { sha256: image.sha256, mediaType: 'image/png', width: 56, height: 28 };
    const made = await of(row, await scripted({ picture: async (name) => (asked.push(name), ref) }));
    expect(made.images).toEqual([{ ...ref, offset: 1, length: 2 }]);
    expect(asked).toEqual([image.sha256]);
    await expect(of(row, await scripted())).rejects.toThrow(
      /^rows\.jsonl:3: images\[0\] shows the picture "a+"; set sft\.images to the folder that holds it$/,
    );
  });

  it('takes the loss on model text only, unless weights say otherwise', async () => {
    const segments: DemonstrationSegment[] = [
      { kind: 'model', text: 'ab', weight: 0.5 },
      { kind: 'environment', text: 'cd' },
      { kind: 'environment', text: 'ef', weight: 2 },
      { kind: 'model', text: 'gh', weight: 0 },
    ];
    const made = await of({ prompt: 'p', segments }, await scripted());
    expect(text(made.ids)).toBe('pabcdefgh');
    expect([...made.targets].map((at) => String.fromCharCode(made.ids[at]!))).toEqual(['a', 'b', 'e', 'f']);
    expect([...made.weights!]).toEqual([0.5, 0.5, 2, 2]);
  });

  it('ends the turn where a segment says so, with the weight of the segment, if the model has a token for it', async () => {
    const row: DemonstrationRow = {
      prompt: [{ role: 'user', content: 'p' }],
      segments: [
        { kind: 'model', text: 'ab' },
        { kind: 'model', text: 'cd', weight: 0.25, ends_turn: true },
      ],
    };
    const tokenizer = await nano();
    const [made, open] = [await of(row, tokenizer), await of(row, { ...tokenizer, closingTokenId: null })];
    expect(made.ids.at(-1)).toBe(tokenizer.closingTokenId);
    expect(made.ids.slice(0, -1)).toEqual(open.ids);
    expect([...made.weights!]).toEqual([...open.weights!, 0.25]);
    expect(made.weights!.at(0)).toBe(1);
  });

  it('takes a text prompt with a completion as one turn', async () => {
    const made = await of({ prompt: 'question ', completion: 'answer' }, await scripted());
    expect([text(made.ids), made.promptLength]).toEqual(['question answer', 9]);
  });

  it('renders a chat as it is sampled: the turn with the token that ends it, then the bridge to the next', async () => {
    const tokenizer = await nano();
    const messages = [
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: 'Who?' },
      { role: 'assistant', content: 'Glevaika' },
      { role: 'user', content: 'Where?' },
      { role: 'assistant', content: 'Trafam' },
      { role: 'user', content: 'never answered' },
    ] as const;
    const made = await of({ messages: [...messages] }, tokenizer);
    const [first, bridge] = [
      (await tokenizer.render(messages.slice(0, 2))).ids,
      (await tokenizer.renderNext(messages.slice(0, 3), messages.slice(3, 4), { isClosed: true })).ids,
    ];
    const closing = tokenizer.closingTokenId!;
    const [one, two] = [await tokenizer.encode('Glevaika'), await tokenizer.encode('Trafam')];
    expect([...made.ids]).toEqual([...first, ...one, closing, ...bridge, ...two, closing]);
    expect(made.targets.length).toBe(one.length + two.length + 2);
    expect([made.ids[made.targets[one.length]!], made.ids[made.targets.at(-1)!]]).toEqual([closing, closing]);
  });

  it('leaves out a turn whose weight is 0, and what stands in the prompt of a completion of messages', async () => {
    const tokenizer = await nano();
    const prompt = [
      { role: 'user', content: 'Who?' },
      { role: 'assistant', content: 'Glevaika' },
      { role: 'user', content: 'Where?' },
    ] as const;
    const made = await of({ prompt: [...prompt], completion: [{ role: 'assistant', content: 'Trafam' }] }, tokenizer);
    expect(made.targets.length).toBe((await tokenizer.encode('Trafam')).length + 1);
    const [user, silent, ...rest] = prompt;
    const same = await of({ messages: [user, { ...silent, weight: 0 }, ...rest, { role: 'assistant', content: 'Trafam' }] }, tokenizer);
    expect([...same.ids]).toEqual([...made.ids]);
    expect([...same.targets]).toEqual([...made.targets]);
  });

  it('takes token ids as they are, and none of them before the first can be a target', async () => {
    const made = await of({ token_ids: [7, 8, 9, 10], loss_mask: [1, 0, 1, 1], weights: [1, 1, 0.5, 1], task: 'search' }, await scripted());
    expect([[...made.ids], [...made.targets], [...made.weights!], made.task]).toEqual([[7, 8, 9, 10], [2, 3], [0.5, 1], 'search']);
  });

  it.each<[DemonstrationRow, RegExp]>([
    [{ messages: [{ role: 'user', content: 'a' }] }, /rows\.jsonl:3 has no message of the assistant/],
    [{ messages: [{ role: 'assistant', content: 'a' }] }, /begins with a message of the assistant/],
    [
      {
        messages: [
          { role: 'user', content: 'a' },
          { role: 'assistant', content: '', tool_calls: [{}] },
        ],
      },
      /has tool_calls; write the calls into content/,
    ],
    [{ prompt: 'a', segments: [{ kind: 'environment', text: 'b' }] }, /has no token to learn/],
    [{ token_ids: [1], loss_mask: [1] }, /has no token to learn/],
    [{ token_ids: [1, 2], loss_mask: [0, 1], tokenizer_hash: 'other' }, /token ids of another tokenizer/],
  ])('refuses %j in one line', async (row, message) => {
    const tokenizer = await nano();
    await expect(of(row, tokenizer)).rejects.toThrow(ConfigError);
    await expect(of(row, tokenizer)).rejects.toThrow(message);
  });
});
