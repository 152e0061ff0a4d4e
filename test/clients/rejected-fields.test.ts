import { describe, expect, it } from 'vitest';
import type { ChatBody } from '../../src/clients/openai-chat-request.ts';
import { RejectedFields } from '../../src/clients/rejected-fields.ts';

const BODY: ChatBody = {
  model: 'm',
  messages: [{ role: 'user', content: 'q' }],
  temperature: 0,
  top_p: 0.9,
  stop: ['</search>'],
  seed: 1,
  max_tokens: 9,
};

function refusal(error: unknown, status = 400) {
  return { status, headers: {}, body: Buffer.from(JSON.stringify(error)) };
}

const openai = (message: string, param: string | null = null) => ({ error: { message, type: 'invalid_request_error', param, code: null } });

describe('RejectedFields', () => {
  it.each([
    ['OpenAI', openai("Unsupported parameter: 'top_p' is not supported with this model.", 'top_p'), ['top_p']],
    [
      'OpenAI',
      openai("Unsupported value: 'temperature' does not support 0 with this model. Only the default (1) value is supported.", 'temperature'),
      ['temperature'],
    ],
    ['OpenAI', openai("Unsupported parameter: 'stop' is not supported with this model.", 'stop'), ['stop']],
    [
      'OpenAI',
      openai("Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.", 'max_tokens'),
      ['max_tokens'],
    ],
    [
      'Anthropic',
      { type: 'error', error: { message: '`temperature` and `top_p` cannot both be specified for this model. Please use only one.' } },
      ['top_p'],
    ],
    ['Anthropic', { type: 'error', error: { message: '`temperature` is deprecated for this model.' } }, ['temperature']],
    ['Anthropic', { type: 'error', error: { message: '`temperature` may only be set to 1 when thinking is enabled.' } }, ['temperature']],
    ['Moonshot', openai('invalid temperature: only 1 is allowed for this model'), ['temperature']],
    ['xAI', openai('Argument not supported on this model: stop'), ['stop']],
    ['another server', openai('stop is not a supported parameter'), ['stop']],
    ['LiteLLM', openai("litellm.UnsupportedParamsError: openai does not support parameters: ['stop'], for model=o3"), ['stop']],
    [
      'Gemini',
      [{ error: { code: 400, message: 'Invalid JSON payload received. Unknown name "seed": Cannot find field.', status: 'INVALID_ARGUMENT' } }],
      ['seed'],
    ],
    ['OpenAI (old)', openai('Unrecognized request argument supplied: stop'), ['stop']],
    ['Anthropic', { type: 'error', error: { message: 'stop: Extra inputs are not permitted' } }, ['stop']],
    ['others', openai('Model does not support stop'), ['stop']],
    ['Anthropic', { error: { message: '`top_p` must be greater than or equal to 0.95 or unset when thinking is enabled.' } }, ['top_p']],
    ['pydantic', { detail: [{ type: 'extra_forbidden', loc: ['body', 'seed'], msg: 'Extra inputs are not permitted', input: BODY }] }, ['seed']],
    ['a gateway, as a text', openai(JSON.stringify(openai("Unsupported parameter: 'stop' is not supported with this model.", 'stop'))), ['stop']],
    [
      'OpenRouter, of its provider',
      { error: { message: 'Provider returned error', code: 400, metadata: { raw: JSON.stringify(openai("'temperature' is unsupported here")) } } },
      ['temperature'],
    ],
    [
      'LiteLLM, in Python',
      openai(`litellm.BadRequestError: Error code: 400 - {'error': {'message': "Unsupported parameter: 'stop' is not supported.", 'param': None}}`),
      ['stop'],
    ],
    [
      'a gateway, for the limit',
      openai(JSON.stringify(openai("Unsupported parameter: 'max_tokens' is not supported. Use 'max_completion_tokens' instead."))),
      ['max_tokens'],
    ],
    ['FastAPI', { detail: 'temperature is not supported for this model' }, ['temperature']],
    ['a problem (RFC 9457)', { type: 'about:blank', title: 'Bad Request', status: 400, detail: "Parameter 'seed' is not supported" }, ['seed']],
    ['Cloudflare', { errors: [{ message: 'top_p is not permitted for this model' }] }, ['top_p']],
    ['Zod', { error: { issues: [{ code: 'unrecognized_keys', keys: ['seed'], path: [], message: 'Unrecognized key' }] } }, ['seed']],
    ['pydantic', { detail: [{ type: 'extra_forbidden', loc: ['body', 'max_tokens'], msg: 'Extra inputs are not permitted' }] }, ['max_tokens']],
    ['TGI', { error: 'Input validation error: `temperature` must be strictly positive', error_type: 'validation' }, ['temperature']],
  ])('learns from the words of %s (%#)', (_, error, names) => {
    const rejected = new RejectedFields();
    expect(rejected.learn(refusal(error), BODY)).toEqual(names);
    const { max_tokens: limit, ...kept } = BODY;
    const expected = names[0] === 'max_tokens' ? BODY : Object.fromEntries(Object.entries(BODY).filter(([name]) => !names.includes(name)));
    expect(rejected.without(BODY)).toEqual(expected);
    expect([kept.model, limit, rejected.limitField]).toEqual(['m', 9, names[0] === 'max_tokens' ? 'max_completion_tokens' : 'max_tokens']);
  });

  it.each([
    ['another fault', openai('Please stop. The model is overloaded.'), 400],
    ['a prompt that it quotes', openai("Invalid prompt: user content 'What is the temperature of the sun?' was flagged by our usage policy"), 400],
    ['the range of a value', openai('temperature must be between 0 and 2', 'temperature'), 400],
    ['another status', openai("'top_p' is not supported", 'top_p'), 500],
    ['a field that was not sent', openai("'logprobs' is not supported", 'logprobs'), 400],
  ])('learns nothing from %s', (_, error, status) => {
    expect(new RejectedFields().learn(refusal(error, status), { ...BODY, temperature: 5 })).toEqual([]);
  });

  it('leaves out a field of messages and calls that the server does not take back', () => {
    const call = { id: 'a', type: 'function', function: { name: 'f', arguments: '{}' }, extra_content: { signature: 's' } } as const;
    const turn = { role: 'assistant', content: 'x', reasoning: 'thought', tool_calls: [call] } as const;
    const body = { ...BODY, messages: [...BODY.messages, turn] } as unknown as ChatBody;
    const rejected = new RejectedFields();
    expect(rejected.learn(refusal(openai('The `reasoning` must be passed back to the API.')), body)).toEqual([]);
    expect(rejected.learn(refusal(openai("'messages.1': property 'reasoning' is unsupported")), body)).toEqual(['reasoning']);
    expect(rejected.learn(refusal(openai("'messages.1': property 'extra_content' is unsupported")), body)).toEqual(['extra_content']);
    const plain = { role: 'assistant', content: 'x', tool_calls: [{ id: 'a', type: 'function', function: { name: 'f', arguments: '{}' } }] };
    expect(rejected.without(body).messages[1]).toEqual(plain);
  });
});

describe('requests that are refused at the same time', () => {
  it('each go on with what the first of them has taught', () => {
    const rejected = new RejectedFields();
    const limit = openai("Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.", 'max_tokens');
    const temperature = openai(
      "Unsupported value: 'temperature' does not support 0 with this model. Only the default (1) value is supported.",
      'temperature',
    );
    for (let i = 0; i < 2; i++) {
      expect(rejected.learn(refusal(limit), BODY)).toEqual(['max_tokens']);
      expect(rejected.learn(refusal(temperature), BODY)).toEqual(['temperature']);
    }
    // The newer name is refused for another reason.
    expect(rejected.learn(refusal(limit), { model: 'm', messages: [], max_completion_tokens: 9 })).toEqual([]);
  });
});
