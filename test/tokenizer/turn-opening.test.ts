/** The text that published templates write into the policy's turn: what is left of the generation prompt behind the header. */
import { afterAll, describe, expect, it } from 'vitest';
import { openLocalTokenizer } from '../../src/tokenizer/local-tokenizer.ts';
import { temporaryFolder } from '../trainer/publisher/adapter-files.ts';
import { PUBLISHED, published, writeTemplateModel } from './template-models.ts';

const folder = temporaryFolder();
afterAll(() => folder.remove());
const EMPTY = '<think>\n\n</think>\n\n';
const OFF = { enable_thinking: false };
const OPENED: Readonly<Record<string, string>> = {
  'qwen-3-5.jinja': '<think>\n',
  'deepseek-v3.jinja': '<think>\n',
  'deepseek-v3-1.jinja': '<think></think>',
};
const user = (content: string) => ({ role: 'user' as const, content });
const tools = [{ name: 'search', description: 'Searches.', parameters: { type: 'object', properties: { query: { type: 'string' } } } }];

/** The openings of the first turn and of the second. */
async function openings(directory: string, variables: Readonly<Record<string, unknown>>, offered: typeof tools = []): Promise<readonly string[]> {
  const chat = await openLocalTokenizer(directory);
  const first = await chat.render([user('Who?')], { tools: offered, variables });
  const next = await chat.renderNext([user('Who?')], [user('When?')], { tools: offered, variables });
  return [first, next].map(({ opening = '' }) => opening);
}

describe('the opening of a turn', () => {
  it.each(PUBLISHED.map(({ file }) => file))('is what %s writes behind the header, in every turn', async (file) => {
    const directory = writeTemplateModel(folder.path, published(file.replace('.jinja', '')));
    const opening = OPENED[file] ?? '';
    expect(await openings(directory, {})).toEqual([opening, opening]);
    expect(await openings(directory, {}, file.startsWith('qwen') ? tools : [])).toEqual([opening, opening]);
  });

  it.each([
    ['qwen-3', OFF, EMPTY],
    ['qwen-3', { enable_thinking: true }, ''],
    ['qwen-3-5', OFF, EMPTY],
    ['deepseek-v3-1', { thinking: true }, '<think>'],
  ])('follows the variables of %s: %j', async (name, variables, opening) => {
    expect(await openings(writeTemplateModel(folder.path, published(name)), variables)).toEqual([opening, opening]);
  });

  it.each([
    ['{% for m in messages %}{{ m.content }}\n{% endfor %}{% if add_generation_prompt %}Assistant: {% endif %}', ''],
    ['{% for m in messages %}{{ m.content }}\n{% endfor %}{% if add_generation_prompt %}ASSISTANT: Let us think. {% endif %}', 'Let us think. '],
    [
      '{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>ai\n<think>\n{% endif %}',
      '<think>\n',
    ],
    ['{% for m in messages %}{{ m.content }}\n{% endfor %}{% if add_generation_prompt %}ai name=assistant\n{% endif %}', ''],
    ['{% for m in messages %}[INST] {{ m.content }} [/INST]{% endfor %}', ''],
    [
      "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% if '/no_think' in messages[0].content %}<think>\n\n</think>\n{% endif %}{% endif %}",
      '',
    ],
  ])('is not the header or the question where a template has no control tokens, and follows the messages: %s', async (chatTemplate, opening) => {
    const chat = await openLocalTokenizer(writeTemplateModel(folder.path, published('chatml'), { hasTemplate: false }), { chatTemplate });
    expect((await chat.render([user('Who is the model?')])).opening ?? '').toBe(opening);
    const isSwitched = chatTemplate.includes('/no_think');
    expect((await chat.render([user('Who? /no_think')])).opening ?? '').toBe(isSwitched ? '<think>\n\n</think>\n' : opening);
  });
});
