// Work of which only the latest result counts, such as searches while typing.

/** Runs at most one piece of work at a time: a newer one aborts the previous one, whose result is never shown. */
export class Latest {
  #running: AbortController | null = null;
  #ended: Promise<void> = Promise.resolve();

  /** Whether any work was started so far. */
  get begun(): boolean {
    return this.#running !== null;
  }

  /** Aborts the running work, whose result is never shown. */
  end(): void {
    this.#running?.abort();
    this.#running = new AbortController();
  }

  /** Waits until nothing is running, including work started meanwhile. */
  async settled(): Promise<void> {
    let last: Promise<void>;
    do {
      last = this.#ended;
      await last;
    } while (last !== this.#ended);
  }

  async run<T>(work: (signal: AbortSignal) => Promise<T>, show: (outcome: T) => void): Promise<void> {
    this.#running?.abort();
    const mine = new AbortController();
    this.#running = mine;
    const before = this.#ended;
    let end = () => {};
    this.#ended = new Promise((resolve) => (end = resolve));
    await before;
    try {
      if (mine !== this.#running) return;
      const outcome = await work(mine.signal);
      if (mine === this.#running) show(outcome);
    } catch (fault) {
      if (mine === this.#running) throw fault;
    } finally {
      end();
    }
  }
}
