/** The model that copies is taught the texts of the package: Search-R1's prompt, its own chat template, the task of `vf-init --tools`. */
import { CORRECTIVE_MESSAGE, makePrefix, observation } from 'vf-search/environments/search-r1';
import { describe, expect, it } from 'vitest';
import { environmentFiles } from '../../../src/templates/environment-template.ts';
import { PythonTemplate } from '../../../src/tokenizer/python-template.ts';
import { python } from '../python.ts';

interface ChatCase {
  readonly name: string;
  readonly text: string;
  readonly parameter: string;
  readonly system: string;
  readonly question: string;
  readonly prompt: string;
  readonly call: string;
  readonly shown: string;
  readonly result: string;
}

interface Taught {
  readonly template: string;
  readonly chats: readonly ChatCase[];
  readonly continued: {
    readonly prompt: string;
    readonly shown: string;
    readonly corrected: string;
    readonly title: string;
    readonly passage: string;
  };
  readonly notes: readonly string[];
}

const QUESTION = 'What is the zorb of Kelm?';

const taught = python(
  `
from recipes.copy import protocols_of_tags as protocols
from recipes.copy import texts
from recipes.copy.scenes import Fact
from recipes.copy.words import WordRandom
rng = WordRandom(3)
fact = Fact("zorb of Kelm", "is", "Ulm", "Kelm", "The zorb of Kelm is Ulm.")
def chat(tools):
    shown = protocols.listed([fact], tools.style, tools.first)
    system = tools.system()
    tools.system = lambda: system
    return {"name": tools.name, "text": tools.text, "parameter": tools.parameter, "system": system, "question": given,
        "prompt": tools.prompt(given), "call": tools.search(fact.key), "shown": tools.shown([fact]), "result": shown}
tags = protocols.SearchR1Tags(rng)
print(json.dumps({
    "template": texts.CHAT_TEMPLATE,
    "chats": [chat(protocols.NativeTools(rng)) for _ in range(20)],
    "continued": {"prompt": tags.prompt(given), "shown": tags.shown([fact]), "corrected": tags.corrected(), "title": fact.title, "passage": fact.text},
    "notes": [protocols.TASK_HEAD, protocols.NOTES_TOOL, protocols.TASK_MIDDLE, protocols.TASK_END, protocols.NOTES_TEXT, protocols.NOTHING_TEXT],
}))`,
  QUESTION,
) as Taught;

describe('recipes/copy/protocols_of_tags.py', () => {
  it('writes chats as the chat template of the model does, call and reply among them', () => {
    const template = new PythonTemplate(taught.template, { isChat: true });
    for (const { name, text, parameter, system, question, prompt, call, shown, result } of taught.chats) {
      const parameters = { type: 'object', properties: { [parameter]: { type: 'string' } } };
      const tools = [{ type: 'function', function: { name, description: text, parameters } }];
      const asked = [
        { role: 'system', content: system },
        { role: 'user', content: question },
      ];
      expect(template.render({ messages: asked, tools, add_generation_prompt: true })).toBe(prompt);
      const called = { role: 'assistant', content: '', tool_calls: [{ function: { name, arguments: { [parameter]: 'zorb of Kelm' } } }] };
      const messages = [...asked, called, { role: 'tool', content: result }];
      expect(template.render({ messages, tools, add_generation_prompt: true })).toBe(prompt + call + shown);
    }
  });

  it('writes the prompt, the passages and the corrective message of search-r1', () => {
    const template = new PythonTemplate(taught.template, { isChat: true });
    const { prompt, shown, corrected, title, passage } = taught.continued;
    const messages = [{ role: 'user', content: makePrefix(QUESTION) }];
    expect(prompt).toBe(template.render({ messages, tools: null, add_generation_prompt: true }));
    expect(shown).toBe(observation([{ contents: `${title}\n${passage}` }]));
    expect(corrected).toBe(CORRECTIVE_MESSAGE);
  });

  it('writes the task and the tool that vf-init --tools writes', () => {
    const { 'environment.ts': source } = environmentFiles({ id: 'notes', directory: 'environments', kind: 'tools', withManifest: false });
    const [head, tool, middle, end, text, nothing] = taught.notes;
    expect(source).toContain(`'${head}${tool}${middle}<answer> your answer </answer>${end}'`);
    expect(source).toContain(`description: '${text}'`);
    expect(source).toContain(`'${nothing}'`);
  });
});
