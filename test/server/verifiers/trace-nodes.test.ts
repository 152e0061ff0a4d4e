import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ScriptedClient } from '../../../src/clients/scripted.ts';
import { Dataset, type Row } from '../../../src/core/dataset.ts';
import type { TurnFormat } from '../../../src/core/environment.ts';
import { type EnvResponse, type EpisodeState, MultiTurnEnv } from '../../../src/core/multi-turn.ts';
import { reward, Rubric } from '../../../src/core/rubric.ts';
import { ToolEnv } from '../../../src/core/tool-use.ts';
import { runRollouts } from '../../../src/rollouts/run-rollouts.ts';
import type { Rollout } from '../../../src/rollouts/rollout.ts';
import type { WireNode } from '../../../src/schemas/verifiers-wire/episode.ts';
import { branchedRollout } from '../../rollouts/branched-rollout.ts';
import { traceNodes } from '../../../src/server/verifiers/trace-nodes.ts';

interface ScriptedResponse {
  readonly observation: string | null;
  readonly prefill?: string;
}

interface Plan {
  readonly turnFormat: TurnFormat;
  readonly prefill: string;
  readonly keptChars: number;
  readonly responses: readonly ScriptedResponse[];
  readonly turns: readonly string[];
  readonly kind: 'tokens' | 'chat';
  /** The policy fails at this turn. */
  readonly failsAt: number | null;
}

const row: Row = {
  exampleId: 'r',
  prompt: [
    { role: 'system', content: 'Be brief.' },
    { role: 'user', content: 'Go on.' },
  ],
};

/** Answers as planned, with nothing, or by opening the next turn. */
class PlannedEnv extends MultiTurnEnv {
  readonly #plan: Plan;

  constructor(plan: Plan) {
    const rubric = new Rubric({ funcs: [reward(() => 1, { name: 'one' })] });
    const { prefill, turnFormat } = plan;
    super({ id: 'planned', eval: new Dataset('rows', [row]), rubric, turnFormat, stop: ['.'], maxTurns: 20, ...(prefill === '' ? {} : { prefill }) });
    this.#plan = plan;
  }

  protected setupState(): EpisodeState {
    return { turns: 0, at: 0 };
  }

  protected override keep(sampled: string): number {
    return Math.min(sampled.length, this.#plan.keptChars);
  }

  protected async envResponse(_: string, state: EpisodeState): Promise<EnvResponse> {
    const at = state['at'] as number;
    state['at'] = at + 1;
    const response = this.#plan.responses[at];
    const isLast = at + 1 >= this.#plan.responses.length;
    const observation = response?.observation ?? null;
    return {
      ...(observation === null ? {} : { observation }),
      ...(isLast ? { done: true } : {}),
      ...(response?.prefill === undefined ? {} : { next: { prefill: response.prefill } }),
    };
  }
}

async function played(environment: MultiTurnEnv, client: ScriptedClient): Promise<Rollout> {
  const options = {
    environment,
    client,
    sampling: { temperature: 1, topP: 1 },
    maxTokens: null,
    maxConcurrent: 1,
    maxReplays: 0,
    timeoutMs: null,
    seed: 0,
  };
  const groups = runRollouts([{ row: environment.eval.at(0), indices: [0] }], { ...options, signal: new AbortController().signal });
  for await (const { rollouts } of groups) return rollouts[0]!;
  throw new Error('Expected a group, got none');
}

/** Each token with its mask and, where the policy sampled it, its log-prob. */
function pathOf(nodes: readonly WireNode[]): readonly (readonly [id: number, isSampled: boolean, logProb: number | null])[] {
  return nodes.flatMap(({ token_ids: ids, mask, logprobs }) => {
    const left = [...logprobs];
    const tokens = ids.map((id, i) => [id, mask[i]!, mask[i]! ? left.shift()! : null] as const);
    expect(left).toEqual([]);
    expect(mask).toHaveLength(ids.length);
    return tokens;
  });
}

function bufferOf({ branches: [branch] }: Rollout): ReturnType<typeof pathOf> {
  const { tokens } = branch!;
  if (tokens === null) return [];
  const { ids, mask, logProbs } = tokens;
  return Array.from(ids, (id, i) => [id, mask[i] === 1, mask[i] === 1 ? logProbs[i]! : null] as const);
}

function assertPath(nodes: readonly WireNode[]): void {
  for (const [i, { parent }] of nodes.entries()) expect(parent).toBe(i === 0 ? null : i - 1);
}

const text = fc.string({ unit: fc.constantFrom('a', 'b', ' ', 'é'), maxLength: 8 });
const plan: fc.Arbitrary<Plan> = fc.record({
  turnFormat: fc.constantFrom('continuation', 'chat'),
  prefill: fc.constantFrom('', 'P:'),
  keptChars: fc.integer({ min: 0, max: 6 }),
  responses: fc.array(fc.record({ observation: fc.option(text), prefill: fc.constantFrom('', 'Q:') }, { requiredKeys: ['observation'] }), {
    minLength: 1,
    maxLength: 5,
  }),
  turns: fc.array(
    text.map((each) => `${each}.`),
    { minLength: 5, maxLength: 5 },
  ),
  kind: fc.constantFrom('tokens', 'chat'),
  failsAt: fc.option(fc.integer({ min: 0, max: 4 })),
});

describe('traceNodes', () => {
  it('has {the tokens of the buffer, in order, with their masks and log-probs} on one path, whatever was played', async () => {
    await fc.assert(
      fc.asyncProperty(plan, async (planned) => {
        const client = new ScriptedClient({
          kind: planned.kind,
          logProb: (index, id) => -0.001 * (index + id + 1),
          turns: ({ index }) => (index === planned.failsAt ? Promise.reject(new Error('lost')) : planned.turns[index]!),
        });
        const rollout = await played(new PlannedEnv(planned), client);
        const nodes = traceNodes(rollout);
        assertPath(nodes);
        expect(pathOf(nodes)).toEqual(bufferOf(rollout));
        expect(nodes.filter(({ sampled }) => sampled)).toHaveLength(rollout.generations.length);
      }),
      { numRuns: 300 },
    );
  });

  it('gives a turn what stands before it and what was sampled, and observations nodes of their own', async () => {
    const environment = new PlannedEnv({
      turnFormat: 'continuation',
      prefill: 'P:',
      keptChars: 3,
      responses: [{ observation: '<doc>' }, { observation: null }],
      turns: [],
      kind: 'tokens',
      failsAt: null,
    });
    const rollout = await played(environment, new ScriptedClient({ turns: ['ab.', 'c.'] }));
    const bytes = (of: string) => [...Buffer.from(of)];
    const [system, user, first, observed, second] = traceNodes(rollout);
    expect(system).toMatchObject({ parent: null, message: { role: 'system', content: 'Be brief.' }, token_ids: [] });
    expect(user).toMatchObject({ message: { role: 'user', content: 'Go on.' }, sampled: false, logprobs: [] });
    expect(first).toMatchObject({
      sampled: true,
      message: { role: 'assistant', content: 'P:ab.' },
      token_ids: bytes('P:ab.'),
      logprobs: [-1, -1, -1],
    });
    expect(first!.mask).toEqual([false, false, true, true, true]);
    expect(observed).toMatchObject({ sampled: false, message: { role: 'user', content: '<doc>' }, token_ids: bytes('<doc>') });
    expect(second).toMatchObject({ sampled: true, message: { content: 'P:c.' } });
  });

  it('has native tool calls, their results and the tools on the root', async () => {
    const environment = new ToolEnv({
      id: 'tools',
      eval: new Dataset('rows', [row]),
      rubric: new Rubric({ funcs: [reward(() => 1, { name: 'one' })] }),
      tools: [{ name: 'look', description: 'Looks.', parameters: { type: 'object', properties: { at: { type: 'string' } } }, execute: () => 'grey' }],
      calls: 'native',
    });
    const call = '<tool_call>\n{"name": "look", "arguments": {"at": "sky"}}\n</tool_call>';
    const rollout = await played(environment, new ScriptedClient({ turns: [`I look. ${call}<|im_end|>`, 'It is grey.<|im_end|>'] }));
    expect(rollout.error).toBeNull();
    const nodes = traceNodes(rollout);
    expect(nodes.map(({ message }) => message.role)).toEqual(['system', 'user', 'assistant', 'tool', 'assistant']);
    expect(nodes[0]!.tools).toEqual([expect.objectContaining({ name: 'look', description: 'Looks.' })]);
    const [made] = nodes[2]!.message.tool_calls!;
    expect([made!.name, JSON.parse(made!.arguments)]).toEqual(['look', { at: 'sky' }]);
    expect(nodes[3]!.message).toEqual({ role: 'tool', content: 'grey', tool_call_id: made!.id });
    expect(pathOf(nodes)).toEqual(bufferOf(rollout));
  });

  it.each(['tokens', 'chat'] as const)(
    'has a path for each branch with exactly its tokens, masks and messages, and samples each turn once: %s',
    async (kind) => {
      const rollout = await branchedRollout({ kind });
      const nodes = traceNodes(rollout);
      const leaves = nodes.flatMap((_, i) => (nodes.some(({ parent }) => parent === i) ? [] : [i]));
      const paths = leaves.map((leaf) => {
        const path: WireNode[] = [];
        for (let at: number | null = leaf; at !== null; at = nodes[at]!.parent) path.unshift(nodes[at]!);
        return path;
      });
      expect(paths.map(pathOf)).toEqual(rollout.branches.map((branch) => bufferOf({ ...rollout, branches: [branch] })));
      expect(paths.map((path) => path.map(({ message }) => message.role))).toEqual(
        rollout.branches.map(({ prompt, segments }) => [
          ...prompt.map(({ role }) => role),
          ...segments.flatMap(({ kind: of, messages }) => messages?.map(({ role }) => role) ?? [of === 'model' ? 'assistant' : 'user']),
        ]),
      );
      expect(nodes.filter(({ sampled }) => sampled)).toHaveLength(rollout.generations.length);
      expect(nodes.filter(({ parent }) => parent === null).map(({ tools = [] }) => tools.length)).toEqual([1, 1, 0]);
      expect(nodes.filter(({ message }) => message.content === 'Be brief.')).toHaveLength(1);
    },
  );

  it('has the prompt of an agent that failed before the policy answered', async () => {
    const rollout = await branchedRollout({ forks: false });
    expect(traceNodes({ ...rollout, branches: [] }).map(({ message }) => message.content)).toEqual(['Be brief.', 'What is the capital of Peru?']);
  });

  it('has no tokens for a rollout whose context was cut', async () => {
    const rollout = await played(
      new PlannedEnv({ turnFormat: 'continuation', prefill: '', keptChars: 9, responses: [], turns: [], kind: 'tokens', failsAt: null }),
      new ScriptedClient({ turns: ['ab.'] }),
    );
    const nodes = traceNodes({ ...rollout, isCut: true });
    expect(pathOf(nodes)).toEqual([]);
    expect(nodes.map(({ message }) => message.content)).toEqual(['Be brief.', 'Go on.', 'ab.']);
  });
});
