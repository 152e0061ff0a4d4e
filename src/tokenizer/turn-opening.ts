/**
 * What a chat template writes into the policy's turn itself, behind the header that opens it: `<think>\n` (Qwen3-Thinking, QwQ, DeepSeek-R1), or `<think>\n\n</think>\n\n`
 * (Qwen3 without thinking). The policy goes on from there, so it is part of the text that is scored and from which actions are read.
 */
import { AskedOnce } from './asked-once.ts';
import { type ControlTokens, looksLikeControl } from './control-tokens.ts';
import { isRefusal, type TemplateRequest, type TokenizerSource } from './tokenizer-source.ts';

/** The tail of a rendered conversation that the generation prompt adds. */
interface GenerationPrompt {
  readonly ids: readonly number[];
  /** Its part behind the header; empty for most templates. */
  readonly opening: string;
}

interface OpeningRequest extends Omit<TemplateRequest, 'addGenerationPrompt'> {
  /** The ids of the conversation with its generation prompt, as rendered for the request: perhaps without its beginning. */
  readonly ids: readonly number[];
}

type Render = (request: TemplateRequest) => Promise<readonly number[]>;

const NONE: GenerationPrompt = { ids: [], opening: '' };
const PLAIN = { addSpecialTokens: false };
/** The rest of a header behind its last control token: the role, and white space. */
const HEADER_END = /^\s*(?:(?:assistant|model|chatbot|bot|ai(?: name=assistant)?)\b[^\S\n]*:?)?\s*/i;

/** The openings of one template; shared by all users of its tokenizer. */
export class TurnOpenings {
  /** By variables and whether there are tools: the generation prompt of a short conversation, which is that of most. */
  readonly #usual = new Map<string, AskedOnce<GenerationPrompt>>();

  async of(request: OpeningRequest, render: Render, control: ControlTokens, source: TokenizerSource): Promise<string> {
    const { ids, variables = {}, tools: all } = request;
    const tools = all.slice(0, 1);
    const key = JSON.stringify([variables, tools.length]);
    const known = this.#usual.get(key) ?? new AskedOnce<GenerationPrompt>();
    this.#usual.set(key, known);
    const usual = await known.get(async () => {
      const short = { messages: [{ role: 'user', content: 'a' }], tools, variables };
      const opened = await rendered(render, { ...short, addGenerationPrompt: true });
      return opened === null ? NONE : generationPrompt({ ...short, ids: opened }, render, control, source);
    });
    if (usual.ids.length === 0 || endsWith(ids, usual.ids)) return usual.opening;
    // Some templates let a message decide, such as "/no_think" in a system prompt.
    return (await generationPrompt(request, render, control, source)).opening;
  }
}

async function generationPrompt(
  { ids, ...request }: OpeningRequest,
  render: Render,
  control: ControlTokens,
  source: TokenizerSource,
): Promise<GenerationPrompt> {
  const closed = await rendered(render, { ...request, addGenerationPrompt: false });
  if (closed === null) return NONE;
  let shared = 0;
  while (shared < closed.length && shared < ids.length && ids[shared] === closed[shared]) shared += 1;
  const added = ids.slice(shared);
  if (added.length === 0) return NONE;
  const text = await source.detokenize(added);
  const { ids: again, spellings } = await source.tokenize(text, PLAIN);
  let from = 0;
  for (const [i, id] of again.entries()) {
    const spelling = spellings[i]?.replace(/^[\s▁Ġ]+/, '') ?? '';
    if (!looksLikeControl(spelling) || !(await control.isControl(id, spelling, source))) continue;
    from = text.indexOf(spelling, from) + spelling.length;
  }
  return { ids: added, opening: text.slice(from).replace(HEADER_END, '') };
}

/** Null if the template rejects the conversation. */
async function rendered(render: Render, request: TemplateRequest): Promise<readonly number[] | null> {
  try {
    return await render(request);
  } catch (error) {
    if (isRefusal(error)) return null;
    throw error;
  }
}

function endsWith(ids: readonly number[], end: readonly number[]): boolean {
  return end.every((id, i) => ids[ids.length - end.length + i] === id);
}
