/** Uploads files to a repository of a Hugging Face hub, in one commit. A new repository is private; the visibility of an existing one stays as it is. */
import { openAsBlob } from 'node:fs';
import { ConfigError } from '../core/errors.ts';
import { fieldsOf } from '../schemas/is-object.ts';
import { HubConnection, type HubConnectionOptions, type HubRepository } from './hub-connection.ts';

export interface PushedFile {
  /** Its path in the repository. */
  readonly path: string;
  /** A file of this machine, or a text. */
  readonly content: { readonly file: string } | { readonly text: string };
}

export interface Pushed {
  /** Page of the repository. */
  readonly url: string;
  /** True if it did not exist before; it is then private. */
  readonly isNew: boolean;
}

/** `owner/name`; null for anything else. */
export function parseRepositoryName(text: string): string | null {
  const [owner, name, ...more] = text.split('/');
  const isName = (part: string | undefined) => part !== undefined && /^[A-Za-z0-9][\w.-]{0,95}$/.test(part) && !/--|\.\.|[.-]$|\.git$/.test(part);
  return isName(owner) && isName(name) && more.length === 0 ? text : null;
}

/** False for a fine-grained token that may write neither the repository nor all of its owner's. */
function mayWrite(token: unknown, name: string): boolean {
  const { role, fineGrained } = fieldsOf(token);
  const { scoped } = fieldsOf(fineGrained);
  if (role !== 'fineGrained' || !Array.isArray(scoped)) return true;
  const [owner] = name.toLowerCase().split('/');
  return scoped.some((scope) => {
    const { entity, permissions } = fieldsOf(scope);
    const of = String(fieldsOf(entity)['name']).toLowerCase();
    return (of === owner || of === name.toLowerCase()) && Array.isArray(permissions) && permissions.includes('repo.write');
  });
}

/** A repository to push to. */
export class HubPush {
  readonly #connection: HubConnection;

  constructor(repository: HubRepository, options: HubConnectionOptions) {
    this.#connection = new HubConnection(repository, options);
  }

  /** `owner/name`. */
  get name(): string {
    return this.#connection.repository.name;
  }

  /** Asks the hub for the owner of the token, so that a long run does not end with a push that cannot succeed. Throws ConfigError. */
  async assertAllowed(): Promise<void> {
    if (!this.#connection.hasToken)
      throw new ConfigError(
        `Pushing to ${this.name} needs a token with write access: create one at ${this.#connection.url}/settings/tokens and set HF_TOKEN to it, or log in with "hf auth login".`,
      );
    const [owner] = this.name.split('/');
    await this.#connection.call(
      'the account',
      async (parameters) => {
        const { whoAmI } = await import('@huggingface/hub');
        const account = await whoAmI({ ...parameters, accessToken: parameters.accessToken! });
        const role = account.auth.accessToken?.role;
        if (role === 'read')
          throw new ConfigError(
            `The token for ${this.#connection.url} can only read. Set HF_TOKEN to a token with write access to push to ${this.name}.`,
          );
        const orgs = account.type === 'user' ? account.orgs : [];
        const given = [account, ...orgs].find(({ name }) => name.toLowerCase() === owner!.toLowerCase());
        if (given !== undefined && fieldsOf(given)['roleInOrg'] === 'read')
          throw new ConfigError(
            `${account.name} may only read the repositories of ${owner}. Ask its admins for the role "contributor", or push to ${account.name}/${this.name.split('/')[1]}.`,
          );
        if (given !== undefined && !mayWrite(account.auth.accessToken, this.name))
          throw new ConfigError(
            `The token for ${this.#connection.url} is fine-grained and has no write access to the repositories of ${owner}. Add it in the token's settings, or set HF_TOKEN to another token.`,
          );
        if (given !== undefined) return;
        throw new ConfigError(
          `The token belongs to ${account.name}, who cannot push to ${owner}. Push to ${account.name}/${this.name.split('/')[1]}, or set HF_TOKEN to a token of ${owner}.`,
        );
      },
      { isPush: true },
    );
  }

  /** Files of the same path are replaced; others stay. */
  async upload(files: readonly PushedFile[], title: string, signal?: AbortSignal): Promise<Pushed> {
    const isNew = await this.#create();
    const contents = await Promise.all(
      files.map(async ({ path, content }) => ({
        path,
        content: 'file' in content ? await openAsBlob(content.file) : new Blob([content.text]),
      })),
    );
    await this.#connection.call(
      'the files',
      async (parameters) => {
        const { uploadFiles } = await import('@huggingface/hub');
        const { repository } = this.#connection;
        // Plain HTTP, as for downloads.
        await uploadFiles({
          ...parameters,
          repo: repository,
          files: contents,
          commitTitle: title,
          useXet: false,
          ...(signal && { abortSignal: signal }),
        });
      },
      { isPush: true },
    );
    const { type } = this.#connection.repository;
    return { url: `${this.#connection.url}/${type === 'dataset' ? 'datasets/' : ''}${this.name}`, isNew };
  }

  /** Returns false if it exists already. */
  async #create(): Promise<boolean> {
    return this.#connection.call(
      'the repository',
      async (parameters) => {
        const { createRepo, repoExists } = await import('@huggingface/hub');
        const { repository } = this.#connection;
        if (await repoExists({ ...parameters, repo: repository })) return false;
        try {
          await createRepo({ ...parameters, accessToken: parameters.accessToken!, repo: repository, visibility: 'private' });
          return true;
        } catch (error) {
          // Another process was faster, or the answer to an earlier attempt was lost.
          if ((error as { statusCode?: number }).statusCode === 409) return false;
          throw error;
        }
      },
      { isPush: true },
    );
  }
}
