import { describe, expect, test } from 'vitest';
import { ScriptedClient } from '../../src/clients/scripted.ts';
import { PolicyVersions } from '../../src/clients/policy-versions.ts';
import { PromptTooLongError } from '../../src/core/errors.ts';
import { chatProblem, clientModel } from '../../src/models/client-model.ts';
import { openRoleModels } from '../../src/models/role-models.ts';

const forever = new AbortController().signal;
const question = [{ role: 'user', content: 'Is 4 even?' }] as const;

describe('clientModel of a policy', () => {
  test.each(['chat', 'tokens'] as const)('asks a %s policy on a lease of its own for each call, and says which version answered', async (kind) => {
    const versions = new PolicyVersions({ version: 3, model: 'base' });
    const seen: number[] = [];
    const client = new ScriptedClient({
      kind,
      versions,
      turns: ({ index, messages }) => {
        seen.push(index);
        return `${messages.at(-1)!.content as string} Yes.`;
      },
    });
    await using rollout = await client.lease(forever);
    const model = clientModel(() => client, { name: 'base', isPolicy: true });
    const ask = () => model.generate(question, { maxTokens: 100, stop: ['Yes'], responseSchema: { type: 'object' }, signal: forever });
    expect(await ask()).toMatchObject({ text: 'Is 4 even? Yes', finish: 'stop', version: 3 });
    versions.advance({ version: 4, model: 'adapter' });
    expect(await ask()).toMatchObject({ version: 4 });
    // Each was the first generation of its lease, and both are given back: the rollout alone holds the old version.
    expect(seen).toEqual([0, 0]);
    const drained = versions.drained(3, AbortSignal.timeout(5_000));
    await rollout[Symbol.asyncDispose]();
    await drained;
  });

  test('asks the current client: a restarted session has another', async () => {
    const clients = ['one', 'two'].map((text) => new ScriptedClient({ kind: 'chat', turns: [text] }));
    const model = clientModel(() => clients.shift()!, { name: 'p', isPolicy: true });
    const texts = [
      await model.generate(question, { maxTokens: 9, signal: forever }),
      await model.generate(question, { maxTokens: 9, signal: forever }),
    ];
    expect(texts.map(({ text }) => text)).toEqual(['one', 'two']);
  });

  test('a prompt that is too long is a failure of the model that will not pass', async () => {
    const client = new ScriptedClient({ turns: ['yes'], maxModelLen: 4 });
    await using roles = await openRoleModels({ judge: { model: clientModel(() => client, { name: 'p', isPolicy: true }) } });
    const call = roles.models['judge']!.generate(question, { maxTokens: 9, signal: forever });
    await expect(call).rejects.toMatchObject({ name: 'ModelError', retryable: false, cause: expect.any(PromptTooLongError) });
  });
});

describe('chatProblem', () => {
  test('a policy by token ids without a template of any kind cannot chat', () => {
    const { capabilities } = new ScriptedClient({ turns: [] });
    expect(chatProblem({ ...capabilities, chatTemplate: null })).toBe('its model has no chat template');
    expect(chatProblem({ ...capabilities, chatTemplate: 'chatml' })).toBeNull();
    expect(chatProblem(new ScriptedClient({ turns: [], kind: 'chat' }).capabilities)).toBeNull();
  });
});
