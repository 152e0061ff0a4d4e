import { generateText } from 'ai';
import { describe, expect, it } from 'vitest';
import { AgentEnv, type AgentOptions } from '../../src/core/agent-env.ts';
import { Dataset, type Row } from '../../src/core/dataset.ts';
import { JudgeRubric } from '../../src/core/judge-rubric.ts';
import { checkAgent } from '../../src/doctor/check-agent.ts';

const rows = new Dataset<Row>('birds', [{ exampleId: 0, prompt: [{ role: 'user', content: 'Which colour has the heron?' }], answer: 'grey' }]);
const { signal } = new AbortController();
type Run = NonNullable<AgentOptions<Row>['run']>;

const check = (run: Run, more: Partial<AgentOptions<Row>> = {}) =>
  checkAgent(
    new AgentEnv<Row>({
      id: 'birds',
      eval: rows,
      rubric: new JudgeRubric(),
      roles: { judge: { about: 'scores', default: null } },
      run,
      ...more,
    }),
    signal,
  );

async function ask(policy: Parameters<Run>[0]['policy'], body: object): Promise<string> {
  const headers = { 'content-type': 'application/json', authorization: `Bearer ${policy.apiKey}` };
  const response = await fetch(`${policy.baseURL}/chat/completions`, {
    method: 'POST',
    headers,
    body: JSON.stringify({ model: policy.name, ...body }),
  });
  return JSON.stringify(await response.json());
}

const user = (content: string) => ({ role: 'user' as const, content });

describe('checkAgent', () => {
  it('plays one rollout with a script, and asks no judge', async () => {
    const [found, ...others] = await check(async ({ policy }) => ({
      answer: (await generateText({ model: policy.languageModel(), prompt: 'q' })).text,
    }));
    expect(found).toMatchObject({
      name: 'agent',
      state: 'ok',
      text: expect.stringMatching(/^1 request in a dry rollout .* without a fork/) as string,
    });
    expect(others).toEqual([]);
  });

  it('names the keys that the policy does not honour, over HTTP', async () => {
    const findings = await check(async ({ policy }) => ({ answer: await ask(policy, { messages: [user('q')], reasoning_effort: 'high' }) }));
    expect(findings).toEqual([
      expect.objectContaining({ state: 'warning', text: expect.stringContaining('does not honour reasoning_effort') as string }),
    ]);
  });

  it('counts forks, with what differs', async () => {
    const findings = await check(async ({ policy }) => {
      const model = policy.languageModel();
      const { text } = await generateText({ model, instructions: 'Step 1', prompt: 'q' });
      await generateText({ model, instructions: 'Step 2', messages: [user('q'), { role: 'assistant', content: text }, user('Sure?')] });
      return {};
    });
    expect(findings).toEqual([
      expect.objectContaining({ state: 'warning', text: expect.stringMatching(/^1 fork in a dry rollout \(.*message.*: .+\)$/) as string }),
    ]);
  });

  it('says that an agent fails, or asks nothing', async () => {
    for (const [run, text] of [
      [async () => Promise.reject(new Error('no key for the search')), /with a script in place of the model: no key for the search$/],
      [async () => ({}), /ended without asking the policy/],
    ] as const)
      expect(await check(run)).toEqual([expect.objectContaining({ state: 'warning', text: expect.stringMatching(text) as string })]);
  });

  it('leaves environments alone that do not ask the policy by themselves', async () => {
    expect(await check(async () => ({}), { asksPolicy: false })).toEqual([]);
  });
});
