import { describe, expect, it } from 'vitest';
import { parseToolCalls, toolCallAttempts } from '../../src/core/tool-calls.ts';
import { agentCalls } from '../../src/rollouts/agent-turns.ts';

const argumentsOf = (body: string) =>
  agentCalls(toolCallAttempts(`<tool_call>\n${body}\n</tool_call>`, 'hermes', 0), String).map((call) => call.arguments);

describe('agentCalls', () => {
  it.each([
    // JSON that the parser refuses: it would round the number, or it is not an object.
    ['{"q": 12345678901234567890}', '}'],
    ['[1]', '}'],
    ['"a \\"}\\" b"', '}'],
    ['12', ', "id": 3}'],
    ['{"q": ["a", {"b": "}"}], "n": 12345678901234567890}', ', "id": 3}'],
    ['null', ' ,}'],
    // Not JSON, but closed.
    ['{"q": heron}', '}'],
    ["{'q': ['heron']}", '}'],
    // Not closed.
    ['{"query": "her}', ''],
    ['{"query": "her}}', ''],
    ['{"query": {"a": 1', ''],
  ])('gives arguments that cannot be used as the policy wrote them: %s', (written, rest) => {
    const body = `{"name": "find", "arguments": ${written}${rest}`;
    expect(parseToolCalls(`<tool_call>${body}</tool_call>`)).toEqual([{ problem: expect.any(String) }]);
    expect(argumentsOf(body)).toEqual([written]);
  });

  it('gives a turn no call where the name of one cannot be read', () => {
    expect(argumentsOf('{"arguments": {}}')).toEqual([]);
  });
});
