/** Fine-tunes the bundled model with Node alone: plain negative log-likelihood over transcripts that search. Without it the model always guesses if it is sampled greedily. */
import { readFileSync } from 'node:fs';
import { type Adapter, Engine } from 'vf-search/engine';

await using engine = await Engine.open({ model: 'nano-base' });
await using trainer = await engine.createTrainer({ rank: 8, alpha: 16 });

const lines = readFileSync(new URL('../datasets/fact-world/train.jsonl', import.meta.url), 'utf8')
  .trim()
  .split('\n');
const encode = (text: string) => [...engine.tokenizer.encode(text, { addSpecialTokens: false })];
const examples = lines.slice(0, 160).map((line) => {
  const { question } = JSON.parse(line) as { question: string };
  const prompt = encode(`Question: ${question}\n`);
  const answer = encode(`<think> I need to look this up.</think><search> ${question}</search>`);
  return { ids: [...prompt, ...answer], targets: answer.map((_, i) => prompt.length + i) };
});
const answer = async (adapter: Adapter | null) =>
  (await engine.generate({ prompt: 'Question: Who is the mayor of Trafam?\n', maxNewTokens: 40, temperature: 0, stop: '</search>', adapter })).text;

console.log(`before:     ${await answer(null)}`);
const losses: number[] = [];
for (let step = 0; step < 20; step++) {
  const batch = await trainer.forward(examples.slice(step * 8, step * 8 + 8));
  const logProbs = batch.logProbs.flatMap((sequence) => [...sequence]);
  losses.push(-logProbs.reduce((sum, logProb) => sum + logProb, 0) / logProbs.length);
  // The derivative of the mean negative log-likelihood by each log-prob.
  await trainer.backward(batch, { dLogProbs: batch.logProbs.map((sequence) => sequence.map(() => -1 / logProbs.length)) });
  await trainer.optimStep({ learningRate: 2e-3 });
}
console.log(`loss:       ${losses[0]!.toFixed(3)} → ${losses.at(-1)!.toFixed(3)}`);
console.log(`after:      ${await answer(await trainer.publish())}`);
if (!(losses.at(-1)! < losses[0]! / 4)) process.exitCode = 1;
