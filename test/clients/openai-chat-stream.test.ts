import { describe, expect, test } from 'vitest';
import { assembleChatStream, streamReason } from '../../src/clients/openai-chat-stream.ts';

const events = (...chunks: unknown[]) => [...chunks.map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`), 'data: [DONE]\n\n'].join('');
const delta = (fields: object, more: object = {}) => ({ id: 'c', model: 'm', choices: [{ index: 0, delta: fields, finish_reason: null, ...more }] });
const assemble = (text: string) => assembleChatStream(text, { where: 'http://host/v1' });
const messageOf = async (...deltas: object[]) => {
  const { choices } = (await assemble(events(...deltas.map((fields) => delta(fields)), delta({}, { finish_reason: 'stop' })))) as {
    choices: { message: unknown }[];
  };
  return choices[0]!.message;
};

describe('assembleChatStream', () => {
  test('joins the deltas to the completion that the server would have sent whole', async () => {
    const text = events(
      delta({ role: 'assistant', content: '' }),
      delta({ reasoning_content: 'Let me ' }),
      delta({ reasoning_content: 'see.' }),
      delta({ content: '<search> a ', role: 'assistant' }),
      delta({ content: '🙂 </search>' }),
      delta({}, { finish_reason: 'stop', stop_reason: '</search>', matched_stop: 7 }),
      { id: 'c', model: 'm', choices: [], usage: { prompt_tokens: 3, completion_tokens: 9 } },
    );
    expect(await assemble(text)).toEqual({
      id: 'c',
      model: 'm',
      object: 'chat.completion',
      usage: { prompt_tokens: 3, completion_tokens: 9 },
      choices: [
        {
          index: 0,
          finish_reason: 'stop',
          stop_reason: '</search>',
          matched_stop: 7,
          message: { role: 'assistant', reasoning_content: 'Let me see.', content: '<search> a 🙂 </search>' },
        },
      ],
    });
  });

  test('tool calls are continued by their index; a second id at the same index is a second call', async () => {
    const call = (index: number, id: string | undefined, name: string, args: string) => ({
      tool_calls: [{ index, ...(id !== undefined && { id }), type: 'function', function: { name, arguments: args } }],
    });
    const message = await messageOf(
      call(0, 'a', 'search', '{"q":'),
      call(1, 'b', 'open', '{}'),
      call(0, undefined, '', '"x"}'),
      call(0, 'a2', 'close', '{}'),
    );
    expect(message).toEqual({
      tool_calls: [
        { index: 0, id: 'a', type: 'function', function: { name: 'search', arguments: '{"q":"x"}' } },
        { index: 1, id: 'b', type: 'function', function: { name: 'open', arguments: '{}' } },
        { index: 0, id: 'a2', type: 'function', function: { name: 'close', arguments: '{}' } },
      ],
    });
  });

  test('tool calls without an index are continued until the next id, or the next name behind whole arguments', async () => {
    const call = (id: string | undefined, name: string | undefined, args: string) => ({
      tool_calls: [{ ...(id !== undefined && { id }), function: { ...(name !== undefined && { name }), arguments: args } }],
    });
    const expected = (ids: readonly (string | undefined)[]) => ({
      tool_calls: [
        { ...(ids[0] !== undefined && { id: ids[0] }), function: { name: 'search', arguments: '{"q":"x"}' } },
        { ...(ids[1] !== undefined && { id: ids[1] }), function: { name: 'search', arguments: '{}' } },
      ],
    });
    const whole = await messageOf(
      call('a', 'search', '{"q":'),
      call(undefined, undefined, '"x"}'),
      call('b', 'search', ''),
      call('b', undefined, '{}'),
    );
    expect(whole).toEqual(expected(['a', 'b']));
    const nameless = await messageOf(call(undefined, 'search', '{"q":'), call(undefined, undefined, '"x"}'), call(undefined, 'search', '{}'));
    expect(nameless).toEqual(expected([undefined, undefined]));
  });

  test('a stream whose choice says why it ended is whole without [DONE]', async () => {
    const text = events(delta({ content: 'a' }), delta({}, { finish_reason: 'stop' })).replace('data: [DONE]\n\n', '');
    expect(await assemble(text)).toMatchObject({ choices: [{ finish_reason: 'stop', message: { content: 'a' } }] });
  });

  test('an event that is an error itself is the error of the completion', async () => {
    const error = { object: 'error', message: 'context too long', code: 400 };
    expect(await assemble(events(delta({ content: 'a' }), error))).toMatchObject({ error });
  });

  test('unknown fields are kept, texts in them joined', async () => {
    const details = (fields: object) => ({ reasoning_details: [{ index: 0, type: 'reasoning.text', ...fields }] });
    const message = await messageOf(
      details({ text: 'a' }),
      details({ text: 'b', signature: 'sig' }),
      { extra_content: { google: { thought_signature: 'x' } } },
      { odd: 1 },
    );
    expect(message).toEqual({
      reasoning_details: [{ index: 0, type: 'reasoning.text', text: 'ab', signature: 'sig' }],
      extra_content: { google: { thought_signature: 'x' } },
      odd: 1,
    });
  });

  test('parts and texts of the content stay in their order', async () => {
    const thinking = (text: string) => ({ content: [{ type: 'thinking', thinking: [{ type: 'text', text }] }] });
    expect(await messageOf({ content: '' }, thinking('a'), { content: 'b' }, { content: '' })).toEqual({
      content: [...thinking('a').content, { type: 'text', text: 'b' }],
    });
  });

  test('comments, other line ends and events of no text are skipped', async () => {
    const text = events(delta({ content: 'ok' }), delta({}, { finish_reason: 'stop' }));
    const noisy = `: OPENROUTER PROCESSING\n\nevent: ping\n\ndata:\n\n${text}`.replaceAll('\n', '\r\n');
    expect(await assemble(noisy)).toEqual(await assemble(text));
  });

  test('a plain completion of a server that ignores the request for a stream is read as it is', async () => {
    expect(await assemble('{"choices": []}')).toEqual({ choices: [] });
  });

  test('an error in the stream is the error of the completion', async () => {
    const error = { message: 'Provider returned error', code: 502 };
    expect(await assemble(`data: ${JSON.stringify(delta({ content: 'a' }))}\n\ndata: ${JSON.stringify({ error })}\n\n`)).toMatchObject({ error });
    expect(await assemble(`event: error\ndata: ${JSON.stringify({ error })}\n\n`)).toEqual({ error, object: 'chat.completion' });
  });

  test.each([
    ['no end', events(delta({ content: 'a' })).replace('data: [DONE]\n\n', ''), /was cut: it did not end with \[DONE\]/],
    ['half an event', `data: ${JSON.stringify(delta({ content: 'secret' })).slice(0, -9)}\n\n`, /not JSON/],
    ['nothing', '', /was cut/],
  ])('a stream that was cut is a failure that may pass: %s', async (_, text, message) => {
    const error = (await assemble(text).catch((thrown: unknown) => thrown)) as Error;
    expect(error).toMatchObject({ name: 'PolicyError', retryable: true, message: expect.stringMatching(message) });
    expect(error.stack).not.toContain('secret');
  });
});

describe('streamReason', () => {
  const answer = (status: number, message: string, tookMs = 0) =>
    streamReason({ status, headers: {}, body: Buffer.from(JSON.stringify({ error: { message } })) }, { tookMs });

  test.each([
    'This model only support stream mode, please enable the stream parameter to access the model. ',
    'parameter.enable_thinking must be set to false for non-streaming calls',
    'parameter.enable_thinking only support stream call',
    'Stream must be set to true',
    'The `stream` parameter must be true for this model',
    'Non-streaming requests are not supported',
    'This model requires streaming',
    'does not support non-stream output',
  ])('%s', (message) => expect(answer(400, message)).toBe('the server answers only streams'));

  test.each([
    'streaming is not supported',
    'This model does not support streaming',
    'temperature must be at most 2',
    'stream_options is not supported',
  ])('not %s', (message) => expect(answer(400, message)).toBeNull());

  test('gateways that cut silent connections', () => {
    expect(answer(524, 'A timeout occurred')).toMatch(/524/);
    expect(answer(504, 'upstream request timeout', 100_000)).toMatch(/504/);
    expect(answer(504, 'no upstream', 20)).toBeNull();
    expect(answer(500, 'only supports streaming')).toBeNull();
  });
});
