import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { CancelledError, Engine, EngineInputError, type GeneratedPart, type GenerationOptions } from '../../../src/engine/index.ts';
import { temporaryFolder, writeAdapter } from '../../trainer/publisher/adapter-files.ts';
import { NANO, nanoRequest, openNano } from '../nano-requests.ts';

const PROMPT = 'Question: Who is the mayor of Trafam?';
const folder = temporaryFolder();
afterAll(() => folder.remove());

describe('Engine', () => {
  let engine: Engine;
  beforeAll(async () => {
    engine = await Engine.open({ model: 'nano-base', threads: 2 });
  });
  afterAll(() => engine.close());

  it('opens a bundled model by name and any other by its directory', async () => {
    expect(engine.config.path).toBe(join(import.meta.dirname, '../../../models/nano-base'));
    expect(engine.maxModelLen).toBe(2048);
    expect(engine.description).toMatch(/2 threads/);
    await using short = await Engine.open({ model: NANO, threads: 1, maxModelLen: 64 });
    expect(short.maxModelLen).toBe(64);
  });

  it('names the bundled models when there is no such model, and the option that does not exist', async () => {
    await expect(Engine.open({ model: 'nono-base' })).rejects.toThrow(
      /no model directory nono-base; .* bundled model \(nano-base, nano-coder, nano-copy, nano-o1, nano-pages\)/,
    );
    await expect(Engine.open({} as { model: string })).rejects.toThrow('The model must be a directory or a name, got undefined.');
    const misspelt = { model: 'nano-base', thread: 1 };
    await expect(Engine.open(misspelt)).rejects.toThrow('Engine.open has no option thread (did you mean threads?).');
    await expect(Engine.open({ model: 'nano-base', signal: AbortSignal.abort() })).rejects.toThrow(CancelledError);
  });

  it('generates what the engine generates for the same request', async () => {
    const plain = await openNano();
    const request = nanoRequest({
      maxTokens: 40,
      stop: { strings: ['</think>'], includeString: true, tokenIds: [], ignoreEnd: false, minTokens: 2 },
    });
    const expected = await plain.generate(request);
    await plain.close();
    await using other = await Engine.open({ model: NANO, threads: 1 });
    const options = { prompt: request.prompt, maxNewTokens: 40, seed: 1, stop: '</think>', includeStop: true, minNewTokens: 2 };
    const { ids, text, logProbs, finish, stopReason } = expected;
    expect(await other.generate(options)).toEqual({ ids, text, logProbs, finishReason: finish, stopReason });
    expect(await other.generate({ ...options, prompt: [...request.prompt] })).toEqual({ ids, text, logProbs, finishReason: finish, stopReason });
  });

  it('encodes a prompt of text, ends at a stop text, and leaves it out unless it is asked for', async () => {
    const options = { prompt: PROMPT, maxNewTokens: 60, temperature: 0, stop: ['</think>'] };
    const generated = await engine.generate(options);
    expect(generated).toMatchObject({ finishReason: 'stop', stopReason: '</think>' });
    expect(generated.text).not.toContain('</think>');
    expect((await engine.generate({ ...options, includeStop: true })).text).toBe(`${generated.text}</think>`);
    const ids = engine.tokenizer.encode(PROMPT, { addSpecialTokens: true });
    expect(await engine.generate({ ...options, prompt: ids })).toEqual(generated);
  });

  it('fills the context unless maxNewTokens says otherwise', async () => {
    await using short = await Engine.open({ model: 'nano-base', threads: 1, maxModelLen: 32 });
    const generated = await short.generate({ prompt: [5, 6, 7], ignoreEnd: true });
    expect(generated).toMatchObject({ finishReason: 'length', stopReason: null });
    expect(generated.ids).toHaveLength(29);
  });

  const wrong: [string, object, RegExp | string][] = [
    ['maxNewTokens', { maxNewTokens: 0 }, /^maxNewTokens must be at least 1, got 0/],
    ['minNewTokens', { maxNewTokens: 2, minNewTokens: 3 }, /^minNewTokens must be less than or equal to maxNewTokens=2/],
    ['topP', { topP: 2 }, /^topP must be in/],
    ['temperature', { temperature: NaN }, /^temperature must be a finite number, got NaN\.$/],
    ['temperature below 0', { temperature: -1 }, /^temperature must be non-negative, got -1\.$/],
    ['a misspelt name', { maxTokens: 3 }, /^generate has no option maxTokens/],
    ["vLLM's name of an option", { max_tokens: 3 }, /^generate has no option max_tokens \(did you mean maxNewTokens\?\)/],
    [
      'the name of an adapter',
      { adapter: 'adapter-1' },
      /^The adapter must be what `trainer.publish` or `engine.loadAdapter` .* returned, got string/,
    ],
    ['an empty prompt', { prompt: '' }, 'The prompt has no tokens. Begin with one token at least.'],
    ['no prompt', { prompt: undefined }, 'The prompt must be text or token ids, got undefined.'],
    ['a fraction', { prompt: [1, 2.5] }, 'The token ids of a prompt must be whole numbers, got 2.5 at index 1.'],
    ['an unknown id', { prompt: [1, 99_999] }, /99999 is out of vocabulary/],
  ];
  it.each(wrong)('refuses %s by the name that the program used', async (_, part, message) => {
    const options = { prompt: PROMPT, ...part } as GenerationOptions;
    await expect(engine.generate(options)).rejects.toThrow(message);
    await expect(engine.generate(options)).rejects.toThrow(EngineInputError);
    await expect(engine.stream(options).next()).rejects.toThrow(message);
  });

  it('streams parts that add up to the generation', async () => {
    const options = { prompt: PROMPT, maxNewTokens: 50, seed: 3 };
    const parts: GeneratedPart[] = [];
    const stream = engine.stream(options);
    let next = await stream.next();
    for (; next.done !== true; next = await stream.next()) parts.push(next.value);
    const whole = await engine.generate(options);
    expect(next.value).toEqual(whole);
    expect(parts.map(({ text }) => text).join('')).toBe(whole.text);
    expect(parts.flatMap(({ ids }) => [...ids])).toEqual([...whole.ids]);
    expect(parts.flatMap(({ logProbs }) => [...logProbs])).toEqual([...whole.logProbs]);
    expect(parts.length).toBeGreaterThan(5);
  });

  it('ends a generation whose reader has left, or whose signal aborts', async () => {
    for await (const { ids } of engine.stream({ prompt: [1, 2, 3], maxNewTokens: 2000, ignoreEnd: true })) {
      expect(ids).toHaveLength(1);
      break;
    }
    await vi.waitFor(() => expect(engine.stats.requestsRunning).toBe(0));
    const stop = new AbortController();
    const reading = (async () => {
      for await (const _ of engine.stream({ prompt: [1, 2, 3], maxNewTokens: 2000, ignoreEnd: true, signal: stop.signal })) stop.abort();
    })();
    await expect(reading).rejects.toThrow(CancelledError);
    await expect(engine.generate({ prompt: PROMPT, signal: stop.signal })).rejects.toThrow(CancelledError);
  });

  it('scores any tokens as it scored them when it sampled them {any prompt}', async () => {
    const ids = fc.array(fc.nat(1570), { minLength: 1, maxLength: 40 });
    await fc.assert(
      fc.asyncProperty(ids, fc.integer({ min: 1, max: 30 }), fc.nat(), async (prompt, maxNewTokens, seed) => {
        const sampled = await engine.generate({ prompt, maxNewTokens, seed });
        const scored = await engine.logProbs([...prompt, ...sampled.ids]);
        expect(scored).toHaveLength(prompt.length + sampled.ids.length - 1);
        expect(scored.slice(prompt.length - 1)).toEqual(sampled.logProbs);
      }),
      { numRuns: 20 },
    );
  });

  it('scores as many tokens as leave room for one more, and one token as nothing', async () => {
    await using short = await Engine.open({ model: 'nano-base', threads: 1, maxModelLen: 32 });
    expect(await short.logProbs(Array.from({ length: 31 }, (_, i) => i))).toHaveLength(30);
    await expect(short.logProbs(Array.from({ length: 32 }, (_, i) => i))).rejects.toThrow('logProbs takes up to 31 tokens, got 32.');
    expect(await short.logProbs([5])).toHaveLength(0);
  });

  it('generates with an adapter from a directory until it is unloaded', async () => {
    const directory = join(folder.path, 'adapter');
    writeAdapter(directory, { seed: 1, b: 0.3 });
    const before = engine.stats.memoryBytes;
    const options = { prompt: PROMPT, maxNewTokens: 30, seed: 1 };
    const adapter = await engine.loadAdapter(directory);
    expect(adapter).toMatchObject({ rank: 4, alpha: 8, version: null, directory, isLoaded: true });
    const generated = await engine.generate({ ...options, adapter });
    expect(generated.ids).not.toEqual((await engine.generate(options)).ids);
    // Its first adapter has the same name, and would be taken for this one.
    await using other = await Engine.open({ model: 'nano-base', threads: 1 });
    using _ = await other.loadAdapter(directory);
    await expect(other.generate({ ...options, adapter })).rejects.toThrow('The adapter belongs to another engine.');
    expect(await engine.logProbs(generated.ids, { adapter })).not.toEqual(await engine.logProbs(generated.ids));
    adapter.unload();
    adapter.unload();
    await expect(engine.generate({ ...options, adapter })).rejects.toThrow(`The adapter from ${directory} has been unloaded. Load it again.`);
    await vi.waitFor(() => expect(engine.stats.memoryBytes).toBe(before));
    await expect(engine.loadAdapter(join(folder.path, 'nowhere'))).rejects.toThrow(/no adapter directory/);
  });

  it('takes any number of requests at once', async () => {
    const requests = Array.from({ length: 1100 }, (_, seed) => engine.generate({ prompt: [1], maxNewTokens: 1, seed }));
    expect(await Promise.all(requests)).toHaveLength(1100);
  });
});
