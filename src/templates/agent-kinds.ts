/** The agents that `vf-init --agent` writes. Apart from their texts, so that the command's help need not load these. */

/** The frameworks, and `command` for a program in any language. */
export const AGENT_KINDS = ['ai-sdk', 'openai-agents', 'langgraph', 'mastra', 'command'] as const;
export type AgentKind = (typeof AGENT_KINDS)[number];
