package dev.messagestore.spark;

import com.fasterxml.jackson.core.util.BufferRecycler;
import com.fasterxml.jackson.core.util.RecyclerPool;

/**
 * One spare set of a parser's buffers for each thread: records are small and many, and handing buffers from thread to thread
 * by a queue, as Jackson's pools do, took a twentieth of an ingest's CPU.
 */
final class ParserBuffers implements RecyclerPool<BufferRecycler> {
  private static final long serialVersionUID = 1L;

  private final transient ThreadLocal<BufferRecycler> spare = new ThreadLocal<>();

  @Override
  public BufferRecycler acquirePooled() {
    BufferRecycler buffers = spare.get();
    // Without a spare one: the thread's first parser, or one within another.
    if (buffers == null) {
      return new BufferRecycler();
    }
    spare.set(null);
    return buffers;
  }

  @Override
  public void releasePooled(BufferRecycler buffers) {
    spare.set(buffers);
  }
}
