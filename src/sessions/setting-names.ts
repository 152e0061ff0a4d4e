/** The caller's names for its settings, so that an error names `-b` to the user of a command and `baseUrl` to the author of a program. */
import type { PolicySpec } from './policy/policy-spec.ts';
import type { EvaluationRequest } from './evaluation/evaluation-request.ts';

/** A property of the objects from which sessions open their parts. */
export type Setting = keyof PolicySpec | keyof EvaluationRequest;

export interface SettingNames {
  /** One setting: `-b`, or `baseUrl`. */
  readonly name: (setting: Setting) => string;
  /** Settings with values: `-p vllm -m NAME`, or `provider: "vllm", model: "NAME"`. */
  readonly given: (values: Readonly<Partial<Record<Setting, string>>>) => string;
  /** A model for a role: `--role judge=MODEL@URL`, or `roles: { judge: "MODEL@URL" }`. */
  readonly role: (role: string, model: string) => string;
}

/** For callers in code. */
export const PROPERTY_NAMES: SettingNames = {
  name: (setting) => setting,
  given: (values) =>
    Object.entries(values)
      .map(([setting, value]) => `${setting}: ${value.startsWith('{') ? value : JSON.stringify(value)}`)
      .join(', '),
  role: (role, model) => `roles: { ${role}: ${JSON.stringify(model)} }`,
};

/** The names of roles in every command that takes some. */
export const ROLE_FLAG: Pick<SettingNames, 'role'> = { role: (role, model) => `--role ${role}=${model}` };
