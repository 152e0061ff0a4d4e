/** The recorded replies once more, through the AI SDK's provider of OpenAI-compatible APIs: the policy reads the same texts and calls, and fails in the same way. */
import { describe, expect, test } from 'vitest';
import { languageModel, playAsPolicy } from './players.ts';
import { readRecordings } from './recording.ts';

/** What this provider leaves out of requests or answers, so that no client behind it could do better; another provider of the SDK may. */
const LOST: Readonly<Record<string, string>> = {
  'LiteLLM: signed thoughts go back with a call': 'signatures of thoughts are not read',
  'Mistral: parts may be plain texts': 'content in plain texts is refused',
  'OpenAI: goes without a temperature other than 1, and without stop': 'the limit is always sent as max_tokens',
  'OpenAI: tools are offered and called (gpt-5)': 'the limit is always sent as max_tokens',
  'OpenAI: goes without temperature, top_p and stop, and cuts the text itself': 'the limit is always sent as max_tokens',
  'OpenAI: a budget spent on thoughts is a text that was cut off': 'the limit is always sent as max_tokens',
  'OpenRouter: details of thoughts go back unchanged': 'details of thoughts are not read',
  'TGI: calls without tool_calls as reason count': 'arguments that are an object are refused',
};
/** Plain JSON where a stream was asked for is taken for an empty stream. */
const LOST_IN_STREAMS = ['an empty account in a 200 ends the run', 'a prompt beyond the window that a 200 reports ends the episode'];

const plays = readRecordings().flatMap(({ server, model, plays: own }) =>
  own.map((play) => {
    const name = `${server.split(',')[0]}: ${play.name}${play.name === 'tools are offered and called' ? ` (${model})` : ''}`;
    return { name, play };
  }),
);
const isLost = (name: string, stream: 'auto' | true) =>
  Object.keys(LOST).some((lost) => name.startsWith(lost)) || (stream === true && LOST_IN_STREAMS.some((lost) => name.endsWith(lost)));

describe.each(['auto', true] as const)('policyFromLanguageModel, asked for streams: %s', (stream) => {
  test.each(plays.filter(({ name }) => !isLost(name, stream)))('$name', stream === true ? { tags: 'long' } : {}, async ({ play }) => {
    const { turns = [], failure } = play.expect;
    const { rollout } = await playAsPolicy(play, { stream, open: languageModel });
    const { error, segments, generations } = rollout;
    const kind =
      error === null
        ? undefined
        : rollout.stop === 'prompt_too_long'
          ? 'tooLong'
          : error.endsRun === true
            ? 'endsRun'
            : error.retryable
              ? 'retryable'
              : 'final';
    expect({ kind, message: error?.message }).toMatchObject({ kind: failure?.kind });
    if (failure !== undefined) return;
    const said = segments
      .filter((segment) => segment.kind === 'model')
      .map(({ text, messages = [] }, i) => {
        const calls = messages
          .flatMap(({ toolCalls = [] }) => toolCalls)
          .map((call) => ({ name: call.name, arguments: JSON.parse(call.arguments) as unknown }));
        return { text: calls.length === 0 ? text : messages[0]!.content, calls, finish: generations[i]!.finish };
      });
    expect(said).toEqual(turns.map(({ text, calls = [], finish = 'stop' }) => ({ text, calls: [...calls], finish })));
  });
});

test('every exception is a play that is recorded', () => {
  const unknown = [...Object.keys(LOST), ...LOST_IN_STREAMS].filter(
    (lost) => !plays.some(({ name }) => name.startsWith(lost) || name.endsWith(lost)),
  );
  expect(unknown).toEqual([]);
});
