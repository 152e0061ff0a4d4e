/** The variables in which a program finds the policy, where the clients of OpenAI and Anthropic look for it. */

/** Where the program finds the policy. */
export interface PolicyAddress {
  readonly name: string;
  /** Ends in `/v1`. */
  readonly baseURL: string;
  readonly apiKey: string;
}

export const POLICY_VARIABLES: Readonly<Record<string, (policy: PolicyAddress) => string>> = {
  OPENAI_BASE_URL: ({ baseURL }) => baseURL,
  OPENAI_API_KEY: ({ apiKey }) => apiKey,
  // Anthropic's clients add /v1 themselves.
  ANTHROPIC_BASE_URL: ({ baseURL }) => baseURL.replace(/\/v1\/?$/, ''),
  ANTHROPIC_API_KEY: ({ apiKey }) => apiKey,
  VF_MODEL: ({ name }) => name,
};
