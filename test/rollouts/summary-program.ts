/** A program with two prompts that do not extend each other: the first model writes, the second sees only what was written. */
import { scriptedModel } from '../../src/core/builtin-judges.ts';
import { Dataset, type Row } from '../../src/core/dataset.ts';
import { AgentEnv } from '../../src/core/agent-env.ts';
import type { AgentResult, PlayOptions } from '../../src/core/environment.ts';
import { contentText } from '../../src/core/message.ts';
import { metric, reward, Rubric } from '../../src/core/rubric.ts';

const words = scriptedModel({ name: 'words', replies: ([message]) => `${contentText(message!.content)} and more` });

export class SummaryProgram extends AgentEnv {
  readonly #failing: (row: Row, signal: AbortSignal) => Promise<unknown>;

  constructor(failing: (row: Row, signal: AbortSignal) => Promise<unknown> = async () => {}, rows = 4) {
    const isShort = ({ modelText }: { readonly modelText: string }) => Number(modelText.endsWith('!'));
    const row = (i: number): Row => ({ exampleId: i, prompt: [{ role: 'user', content: `text ${i}` }], answer: `${i}` });
    super({
      id: 'summaries',
      eval: new Dataset(
        'texts',
        Array.from({ length: rows }, (_, i) => row(i)),
      ),
      rubric: new Rubric({ funcs: [reward(isShort, { name: 'short' }), metric(({ segments }) => segments.length, { name: 'pieces' })] }),
      models: { name: 'pen', description: 'the pen asks nobody' },
      roles: { writer: { about: 'writes', default: 'builtin', builtin: words } },
    });
    this.#failing = failing;
  }

  override async play(row: Row, { models, signal }: PlayOptions): Promise<AgentResult> {
    await this.#failing(row, signal);
    const content = contentText(row.prompt[0]!.content);
    const writer = models?.['writer'] ?? words;
    const { text } = await writer.generate([{ role: 'user', content }], { maxTokens: 20, signal });
    return {
      segments: [
        { kind: 'observation', text: content },
        { kind: 'model', text },
        { kind: 'observation', text: `Shorten: ${text}` },
        { kind: 'model', text: `${text.slice(0, 6)}!` },
      ],
      state: { length: text.length },
      stop: 'completed',
    };
  }
}
