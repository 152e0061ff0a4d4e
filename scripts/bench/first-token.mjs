// A process that wants one token, for bench/embedded.ts. Over the compiled package, as users have it; by itself and no TypeScript, for whatever it
// loaded beside would be in the time.
const { EmbeddedEngine } = await import('../../dist/src/engine/embedded-engine.js');
const signal = new AbortController().signal;

const engine = await EmbeddedEngine.open({ modelPath: 'models/nano-base', signal });
const prompt = engine.tokenizer.encode('Answer the given question. Question: who is the mayor of a town?', { addSpecialTokens: false });
await engine.generate({
  prompt,
  adapter: null,
  maxTokens: 1,
  sampling: { temperature: 1, topP: 1, topK: -1, minP: 0, seed: null },
  stop: { strings: [], includeString: true, tokenIds: [], ignoreEnd: true, minTokens: 0 },
  skipSpecialTokens: true,
  logProbs: 0,
  promptLogProbs: null,
  logProbsMode: 'raw',
  allowedTokenIds: null,
  cacheSalt: null,
  signal,
});
// Since the process began.
process.stdout.write(`${performance.now() / 1000}\n`);
await engine.close();
