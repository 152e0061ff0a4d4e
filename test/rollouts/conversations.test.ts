/** Conversations by token ids, turn by turn: what is in the buffer, who wrote it, and what closes a turn. */
import { describe, expect, it } from 'vitest';
import { ScriptedClient, type ScriptedOptions } from '../../src/clients/scripted.ts';
import { codePointTokenizer } from '../../src/clients/text-tokenizer.ts';
import { Dataset, type Row } from '../../src/core/dataset.ts';
import type { StepContext } from '../../src/core/environment.ts';
import { type ContentPart, contentText, type Message } from '../../src/core/message.ts';
import { type EnvResponse, type EpisodeState, MultiTurnEnv, type MultiTurnOptions } from '../../src/core/multi-turn.ts';
import { Rubric } from '../../src/core/rubric.ts';
import { defineTool } from '../../src/core/tool.ts';
import { ToolEnv } from '../../src/core/tool-use.ts';
import { Random } from '../../src/core/random.ts';
import { playEpisode } from '../../src/rollouts/play.ts';
import type { Played } from '../../src/rollouts/rollout.ts';

const CONTROL = new Map([0x110000, 0x110001, 0x110002].map((id, i) => [id, ['<|endoftext|>', '<|im_start|>', '<|im_end|>'][i]!]));
const chatml = (messages: readonly Message[]) =>
  `${messages.map(({ role, content }) => `<|im_start|>${role}\n${contentText(content)}<|im_end|>\n`).join('')}<|im_start|>assistant\n`;
const row: Row = { exampleId: 0, prompt: [{ role: 'user', content: 'Hi.' }] };
const IMAGE: ContentPart = { type: 'image', image: { sha256: 'a', mediaType: 'image/png', width: 1, height: 1 } };

class TalkEnv extends MultiTurnEnv {
  readonly seen: StepContext[] = [];
  readonly #answers: readonly EnvResponse[];

  constructor(answers: readonly EnvResponse[], options: Partial<MultiTurnOptions<Row>> = {}) {
    super({ id: 'talk', eval: new Dataset('rows', [row]), rubric: new Rubric({ funcs: [] }), ...options });
    this.#answers = answers;
  }

  protected setupState(): EpisodeState {
    return { turns: 0 };
  }

  protected envResponse(_kept: string, { turns }: EpisodeState, context: StepContext): EnvResponse {
    this.seen.push(context);
    return this.#answers[turns - 1] ?? { done: true };
  }
}

async function play(
  environment: MultiTurnEnv | ToolEnv,
  turns: ScriptedOptions['turns'],
  more: Partial<ScriptedOptions> = {},
  played = row,
): Promise<Played> {
  const client = new ScriptedClient({ turns, tokenizer: 'code-points', template: chatml, ...more });
  const { signal } = new AbortController();
  await using lease = await client.lease(signal);
  const { capabilities } = client;
  const sampling = { temperature: 1, topP: 1 };
  return playEpisode({
    environment,
    row: played,
    lease,
    capabilities,
    sampling,
    maxTokens: null,
    random: Random.fromSeed(0),
    signal,
  });
}

/** The buffer as text, what the policy sampled between braces. */
function shown({ branches: [branch] }: Played): string {
  const { tokens } = branch!;
  const text = (ids: Int32Array) => Array.from(ids, (id) => CONTROL.get(id) ?? codePointTokenizer.decode(Int32Array.of(id))).join('');
  return tokens!.segments
    .map(({ kind, start, end }) => (kind === 'model' ? `{${text(tokens!.ids.slice(start, end))}}` : text(tokens!.ids.slice(start, end))))
    .join('');
}

describe('a conversation by token ids', () => {
  it('keeps the token that ends a turn as sampled text and writes no second one', async () => {
    const played = await play(new TalkEnv([{ observation: 'More?' }]), ['One.<|im_end|>', 'Two.<|im_end|>']);
    expect(shown(played)).toBe(
      '<|im_start|>user\nHi.<|im_end|>\n<|im_start|>assistant\n{One.<|im_end|>}\n<|im_start|>user\nMore?<|im_end|>\n<|im_start|>assistant\n{Two.<|im_end|>}',
    );
    expect(played.generations.map(({ keptTokens }) => keptTokens)).toEqual([5, 5]);
    expect(played.branches[0]!.tokens!.sampledLength).toBe(10);
    expect(played.segments).toEqual([
      { kind: 'model', text: 'One.' },
      { kind: 'observation', text: 'More?' },
      { kind: 'model', text: 'Two.' },
    ]);
  });

  it('closes a turn that a stop string or a length limit ended', async () => {
    const stopped = await play(new TalkEnv([{ observation: 'More?' }], { stop: ['!'] }), ['One! and on', 'Two.<|im_end|>']);
    expect(shown(stopped)).toContain('{One!}<|im_end|>\n<|im_start|>user\nMore?');
    const cut = await play(new TalkEnv([{ observation: 'More?' }], { limits: { responseTokens: 3 } }), ['One more', 'Two<|im_end|>']);
    expect(shown(cut)).toContain('{One}<|im_end|>\n<|im_start|>user\nMore?');
    expect(cut.generations[0]).toMatchObject({ finish: 'length' });
  });

  it('trains a turn that is nothing but its end', async () => {
    const played = await play(new TalkEnv([{ observation: 'Well?' }]), ['<|im_end|>', 'Two.<|im_end|>']);
    expect(shown(played)).toContain('assistant\n{<|im_end|>}\n<|im_start|>user\nWell?');
  });

  it('keeps an end token of another kind, and adds none of the template’s own after it', async () => {
    const played = await play(new TalkEnv([{ observation: 'More?' }]), ['One.<|endoftext|>', 'Two.<|im_end|>']);
    expect(shown(played)).toContain('{One.<|endoftext|>}\n<|im_start|>user\nMore?');
  });

  it('drops the end of a turn after a cut, and everywhere if the environment says so', async () => {
    class Cutting extends TalkEnv {
      protected override keep(sampled: string): number {
        return Math.min(sampled.length, 3);
      }
    }
    expect(shown(await play(new Cutting([{ observation: 'More?' }]), ['One.<|im_end|>', 'Two<|im_end|>']))).toContain('{One}<|im_end|>\n');
    const dropped = await play(new TalkEnv([{ observation: 'More?' }], { tokens: { endOfTurn: 'dropped' } }), ['One.<|im_end|>', 'Two.<|im_end|>']);
    expect(shown(dropped)).toMatch(/\{One\.\}<\|im_end\|>\n.*\{Two\.\}$/s);
  });

  it('fails a turn that is prefilled for a policy that takes whole messages', async () => {
    const environment = new TalkEnv([{ observation: 'More?', next: { prefill: 'B:' } }]);
    expect(environment.needs).toEqual([]);
    expect(new TalkEnv([], { needs: ['prefill'], prefill: 'A:' }).needs).toEqual(['prefill']);
    const client = new ScriptedClient({ turns: ['One.', 'Two.'], kind: 'chat' });
    const { signal } = new AbortController();
    await using lease = await client.lease(signal);
    const options = { environment, row, lease, sampling: { temperature: 1, topP: 1 }, maxTokens: null, random: Random.fromSeed(0), signal };
    const played = await playEpisode({ ...options, capabilities: { ...client.capabilities, prefill: false } });
    expect(played.error).toMatchObject({ type: 'EnvironmentError', source: 'environment', endsRun: true });
    expect(played.error!.message).toContain('`needs`');
    expect(played.generations).toHaveLength(1);
  });

  it('asks a chat for as many bytes as a policy of bytes gets tokens', async () => {
    const environment = new TalkEnv([], { limits: { responseTokens: 3 } });
    const client = new ScriptedClient({ turns: ['One. Two. Three.'], kind: 'chat' });
    const { signal } = new AbortController();
    await using lease = await client.lease(signal);
    const options = { environment, row, lease, sampling: { temperature: 1, topP: 1 }, maxTokens: null, random: Random.fromSeed(0), signal };
    const { generations } = await playEpisode({ ...options, capabilities: { ...client.capabilities, lengthScale: 5 } });
    expect(generations[0]!.maxNewTokens).toBe(15);
  });

  it('opens turns with a prefill, mask 0, and lets a turn have its own prefill and stops', async () => {
    const environment = new TalkEnv([{ observation: 'More?', next: { prefill: 'B:', stop: ['?'] } }, { observation: 'Last?' }], {
      prefill: 'A:',
      stop: ['!'],
    });
    const played = await play(environment, ['one! x', 'two! three? x', 'four<|im_end|>']);
    expect(shown(played)).toMatch(
      /assistant\nA:\{one!\}<\|im_end\|>.*assistant\nB:\{two! three\?\}<\|im_end\|>.*assistant\nA:\{four<\|im_end\|>\}$/s,
    );
    expect(played.segments.map(({ kind }) => kind)).toEqual([
      'prefill',
      'model',
      'observation',
      'prefill',
      'model',
      'observation',
      'prefill',
      'model',
    ]);
  });

  it('lets the environment know how a generation ended', async () => {
    const environment = new TalkEnv([{ observation: 'a' }, { observation: 'b' }], { stop: ['!'], limits: { responseTokens: 4 } });
    await play(environment, ['One!', 'Long story', 'End<|im_end|>']);
    expect(environment.seen.map(({ finish, stopReason }) => [finish, stopReason])).toEqual([
      ['stop', '!'],
      ['length', null],
      ['stop', null],
    ]);
  });

  it('continues with another turn of the policy where the environment says nothing', async () => {
    const played = await play(new TalkEnv([{}]), ['One.<|im_end|>', 'Two.<|im_end|>']);
    expect(shown(played)).toMatch(/\{One\.<\|im_end\|>\}\n<\|im_start\|>assistant\n\{Two\.<\|im_end\|>\}$/);
  });

  it('shows the policy nothing that is said after its last turn, and scores it', async () => {
    const played = await play(new TalkEnv([{ observation: 'Bye.', done: true }]), ['One.<|im_end|>']);
    expect(shown(played)).toMatch(/\{One\.<\|im_end\|>\}$/);
    expect(played.segments.at(-1)).toEqual({ kind: 'observation', text: 'Bye.' });
  });

  it.each([
    ['the prompt', 'chat', { ...row, prompt: [{ role: 'user', content: [IMAGE] }] }, []],
    ['the prompt of one turn', 'continuation', { ...row, prompt: [{ role: 'user', content: [IMAGE] }] }, []],
    ['an answer', 'chat', row, [{ messages: [{ role: 'user', content: [{ type: 'text', text: 'Look.' }, IMAGE] }] }]],
  ] as [string, 'chat' | 'continuation', Row, EnvResponse[]][])(
    'fails where an image is in %s, and names what the environment must declare',
    async (_, turnFormat, given, answers) => {
      const environment = new TalkEnv(answers, { turnFormat });
      const played = await play(environment, ['One.<|im_end|>', 'Two.<|im_end|>'], {}, given);
      expect(played.error).toMatchObject({ type: 'EnvironmentError', source: 'environment', endsRun: true });
      expect(played.error!.message).toContain("'images' to the `needs`");
    },
  );

  it('keeps the head of a message that is too long', async () => {
    const played = await play(new TalkEnv([{ observation: 'abcdefgh' }], { limits: { observationTokens: 3 } }), ['One.<|im_end|>', 'Two.<|im_end|>']);
    expect(shown(played)).toContain('user\nabc<|im_end|>');
    expect(played).toMatchObject({ cutObservations: 1, segments: [{}, { text: 'abc' }, {}] });
  });
});

describe('a prompt that throws', () => {
  it('fails the rollout in time, although the clean-up hangs', async () => {
    class Broken extends TalkEnv {
      override prompt(): never {
        throw new Error('no prompt');
      }

      protected override cleanup(): Promise<void> {
        return new Promise(() => {});
      }
    }
    const started = new Broken([]).start(row, { random: Random.fromSeed(0), models: {}, signal: AbortSignal.timeout(50) });
    await expect(started).rejects.toThrow('no prompt');
  });
});

describe('native tools', () => {
  const add = defineTool({
    name: 'add',
    description: 'Adds',
    parameters: { type: 'object', properties: { a: { type: 'number' }, b: { type: 'number' } }, required: ['a', 'b'] },
    execute: ({ a, b }, { state }) => {
      state['added'] = true;
      return (a as number) + (b as number);
    },
  });
  const environment = () =>
    new ToolEnv({ id: 'sums', eval: new Dataset('rows', [row]), rubric: new Rubric({ funcs: [] }), tools: [add], calls: 'native', maxTurns: 3 });

  it('answers each call with a tool message, including a call that cannot be read', async () => {
    const turn = '<tool_call>\n{"name": "add", "arguments": {"a": 1, "b": 2}}\n</tool_call>\n<tool_call>\n{"name": "add"\n</tool_call><|im_end|>';
    const played = await play(environment(), [turn, 'It is 3.<|im_end|>']);
    expect(played).toMatchObject({ stop: 'no_tools_called', error: null, state: { calls: { add: 1 }, badCalls: 1, added: true } });
    expect(shown(played)).toMatch(
      /<\/tool_call><\|im_end\|>\}\n<\|im_start\|>tool\n3<\|im_end\|>\n<\|im_start\|>tool\nError: the call is not JSON \(.*?\)<\|im_end\|>\n/,
    );
    const [called, answered] = played.segments;
    expect(called!.messages![0]!.toolCalls).toMatchObject([{ id: 'call00000', name: 'add', arguments: '{"a":1,"b":2}' }, { id: 'call00001' }]);
    expect(answered!.messages).toMatchObject([
      { role: 'tool', content: '3', toolCallId: 'call00000' },
      { role: 'tool', toolCallId: 'call00001' },
    ]);
    expect(played.tools.map(({ name }) => name)).toEqual(['add']);
  });

  it('runs a call that a prefill opened', async () => {
    const prefilled = new ToolEnv({
      id: 'sums',
      eval: new Dataset('rows', [row]),
      rubric: new Rubric({ funcs: [] }),
      tools: [add],
      calls: 'native',
      maxTurns: 1,
      prefill: '<tool_call>\n{"name": "add", ',
    });
    const played = await play(prefilled, ['"arguments": {"a": 1, "b": 2}}\n</tool_call><|im_end|>']);
    expect(played).toMatchObject({ error: null, state: { calls: { add: 1 }, badCalls: 0 } });
    expect(played.segments[1]).toMatchObject({ text: '"arguments": {"a": 1, "b": 2}}\n</tool_call>' });
    expect(played.segments[1]!.messages).toEqual([
      { role: 'assistant', content: '', toolCalls: [{ id: 'call00000', name: 'add', arguments: '{"a":1,"b":2}' }] },
    ]);
  });

  it.each(['tokens', 'chat'] as const)('records a call by %s once: in the calls of the message, not in its content', async (kind) => {
    const turn = 'I add. <tool_call>\n{"name": "add", "arguments": {"a": 1, "b": 2}}\n</tool_call>';
    const played = await play(environment(), [`${turn}${kind === 'tokens' ? '<|im_end|>' : ''}`, 'It is 3.'], { kind });
    const [called] = played.segments;
    expect(called!.text).toBe(turn);
    expect(called!.messages).toEqual([
      { role: 'assistant', content: 'I add.', toolCalls: [{ id: 'call00000', name: 'add', arguments: '{"a":1,"b":2}' }] },
    ]);
  });

  it('refuses native calls where a turn continues as raw text', () => {
    expect(
      () =>
        new ToolEnv({
          id: 'x',
          eval: new Dataset('r', [row]),
          rubric: new Rubric({ funcs: [] }),
          tools: [add],
          calls: 'native',
          turnFormat: 'continuation',
        }),
    ).toThrow('need turnFormat "chat"');
  });
});

describe('one assistant turn', () => {
  it('keeps the end of the turn where the episode ends with it, and nowhere else', async () => {
    const options = { turnFormat: 'continuation' as const };
    const played = await play(new TalkEnv([{ observation: ' more ' }], options), ['One.<|im_end|>', 'Two.<|im_end|>'], {
      template: (m) => contentText(m[0]!.content),
    });
    expect(shown(played)).toBe('Hi.{One.} more {Two.<|im_end|>}');
    expect(played.generations.map(({ keptTokens }) => keptTokens)).toEqual([4, 5]);
    const dropped = await play(new TalkEnv([], { ...options, tokens: { endOfTurn: 'dropped' } }), ['Two.<|im_end|>'], {
      template: (m) => contentText(m[0]!.content),
    });
    expect(shown(dropped)).toBe('Hi.{Two.}');
  });

  it('treats messages of an environment as its mistake', async () => {
    const played = await play(new TalkEnv([{ messages: [{ role: 'user', content: 'a' }] }], { turnFormat: 'continuation' }), ['One.', 'Two.']);
    expect(played.error).toMatchObject({ type: 'EnvironmentError', message: expect.stringContaining('continuation format') as string });
  });
});
