/** Shapes in which judges reply, over a chat API: which of them are a score, and what is said of the others (case 34). */
import { describe, expect, it } from 'vitest';
import { JudgeRubric } from '../../src/core/judge-rubric.ts';
import { Parser } from '../../src/core/parser.ts';
import type { RewardContext } from '../../src/core/rubric.ts';
import { clientModel } from '../../src/models/client-model.ts';
import { openRoleModels } from '../../src/models/role-models.ts';
import { openChatApi } from '../../src/registry/open-chat-api.ts';
import { type Body, recordedServer } from './recorded-server.ts';
import type { Play } from './recording.ts';

const { signal } = new AbortController();

/** The score of a judge behind a server that plays this, and what it was asked. */
async function judged(play: Pick<Play, 'answers' | 'refusals'>): Promise<{ readonly reward: number; readonly bodies: readonly Body[] }> {
  await using server = await recordedServer({ name: 'judge', expect: {}, ...play });
  const client = await openChatApi({ baseUrls: [`${server.url}/v1`], model: 'm', apiKey: null, keyVariable: null, maxRetries: 0 });
  await using roles = await openRoleModels({ judge: { model: clientModel(() => client, { name: 'm', isPolicy: false }), maxRetries: 0 } });
  const context: RewardContext = {
    row: { exampleId: 1, prompt: [], answer: 'Paris' },
    prompt: [{ role: 'user', content: 'Capital of France?' }],
    segments: [{ kind: 'model', text: 'It is Paris.' }],
    scoredText: 'It is Paris.',
    modelText: 'It is Paris.',
    stop: 'completed',
    state: {},
    parser: new Parser(),
    models: roles.models,
    signal,
  };
  try {
    const { reward } = await new JudgeRubric().score(context);
    return { reward, bodies: server.bodies };
  } finally {
    await client.close();
  }
}

const replying = (content: unknown, message: object = {}, choice: object = {}) => ({
  choice: { finish_reason: 'stop', ...choice, message: { role: 'assistant', content, ...message } },
});
const VERDICT = '{"reason": "as in the reference", "score": 1}';
const refusing = (message: string, has: readonly string[]) => ({ if: { has }, status: 400, body: { error: { message } } });

describe('a judge over a chat API', () => {
  it.each<[string, ReturnType<typeof replying>]>([
    ['one JSON object', replying(VERDICT)],
    ['a code fence', replying(`\`\`\`json\n${VERDICT}\n\`\`\``)],
    ['prose before the object', replying(`The answer is right.\n\n${VERDICT}`)],
    ['an object in a tag', replying(`<answer>${VERDICT}</answer>`)],
    ['thoughts in the text', replying(`<think>\nIs it {Paris}? Yes.\n</think>\n\n${VERDICT}`)],
    ['thoughts in a field', replying(VERDICT, { reasoning_content: 'Is it {"score": 0}?' })],
    [
      'thoughts and text in parts',
      replying([
        { type: 'thinking', thinking: [{ type: 'text', text: 'Hm.' }] },
        { type: 'text', text: VERDICT },
      ]),
    ],
    ['a score in a string', replying('{"reason": "right", "score": "1"}')],
    ['the keys in another order', replying('{"score": 1, "reason": "right"}')],
    ['line breaks around the object', replying(`\n\n${VERDICT}\n\n`)],
  ])('%s is a score', async (_, answer) => {
    expect((await judged({ answers: [answer] })).reward).toBe(1);
  });

  it.each<[string, ReturnType<typeof replying>]>([
    ['text after the object', replying(`${VERDICT}\n\nI hope that this helps.`)],
    ['a score out of range', replying('{"reason": "right", "score": 10}')],
    ['no object', replying('The answer is right: 1.')],
  ])('%s is asked for again, with the fault', async (_, answer) => {
    const { reward, bodies } = await judged({ answers: [answer, replying(VERDICT)] });
    expect(reward).toBe(1);
    expect(bodies).toHaveLength(2);
    expect(bodies[1]!.messages.at(-1)!['content']).toMatch(/^Your reply cannot be used: /);
  });

  it.each<[string, ReturnType<typeof refusing>, readonly string[]]>([
    [
      'temperature',
      refusing("Unsupported value: 'temperature' does not support 0 with this model. Only the default (1) value is supported.", ['temperature']),
      ['temperature'],
    ],
    ['a schema', refusing("'response_format' of type 'json_schema' is not supported with this model", ['response_format']), ['response_format']],
  ])('a model that refuses %s judges without it', async (_, refusal, lacks) => {
    const { reward, bodies } = await judged({ refusals: [refusal], answers: [replying(VERDICT)] });
    expect(reward).toBe(1);
    expect(lacks.filter((name) => name in bodies.at(-1)!)).toEqual([]);
  });

  it('a judge that stops for another reason than its end has given no score', async () => {
    await expect(judged({ answers: [replying(VERDICT, {}, { finish_reason: 'abort' })] })).rejects.toThrow(/judge/);
  });
});
