/* cuda/host/plugin.cu - the table, and what needs no kernel: devices, sentences, memory. */
#include "cuda/host/plan.h"

#include <stdarg.h>
#include <stdio.h>

#include <new>
#include <type_traits>

namespace lnt
{

lnt_status fail(lnt_cuda_device *device, lnt_status status, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    device->sentence = text;
    return status;
}

lnt_status check(lnt_cuda_device *device, cudaError_t error, const char *doing)
{
    if (error == cudaSuccess) return LNT_OK;
    return fail(device, error == cudaErrorMemoryAllocation ? LNT_ERR_MEMORY : LNT_ERR_UNSUPPORTED,
                "cuda: %s failed: %s", doing, cudaGetErrorString(error));
}

/* ---- the thread's current device ------------------------------------------------------------- */

/* Launches, allocations and the default stream are those of the current device, which is the caller's
 * to choose: for as long as this lives it is another one. */
class chosen
{
  public:
    explicit chosen(int ordinal)
    {
        error = cudaGetDevice(&before);
        changed = error == cudaSuccess && before != ordinal;
        if (changed) error = cudaSetDevice(ordinal);
    }
    ~chosen()
    {
        if (changed) cudaSetDevice(before);
    }
    chosen(const chosen &) = delete;
    chosen &operator=(const chosen &) = delete;

    cudaError_t error;

  private:
    int before;
    bool changed;
};

static lnt_cuda_device *device_of(lnt_cuda_device *device) { return device; }
static lnt_cuda_device *device_of(lnt_cuda_plan *plan) { return plan->device; }

/* A function of the table upon the device of its first argument; one that only releases does so whatever
 * the device says. */
template <auto function> struct on_device;
template <class R, class T, class... Args, R (*function)(T *, Args...)> struct on_device<function> {
    static R call(T *of, Args... args)
    {
        if constexpr (std::is_void_v<R>)
            if (!of) return;
        const chosen now(device_of(of)->ordinal);
        if constexpr (!std::is_void_v<R>) {
            const lnt_status status = check(device_of(of), now.error, "choosing the device");
            if (status) return status;
        }
        return function(of, args...);
    }
};

/* ---- devices --------------------------------------------------------------------------------- */

static lnt_status cannot(char *sentence, size_t capacity, const char *format, int a, const char *b)
{
    snprintf(sentence, capacity, format, a, b);
    return LNT_ERR_UNSUPPORTED;
}

static lnt_status open_device(int ordinal, const lnt_cuda_struct *structs, lnt_cuda_device **out,
                              char *sentence, size_t capacity)
{
    *out = NULL;
    const int odd = lnt_cuda_misfit(structs);
    if (odd >= 0)
        return cannot(sentence, capacity, "the library that opens it has %d bytes for %s, and it has not",
                      (int)structs[odd].size, lnt_cuda_structs[odd].name);
    int count = 0;
    const cudaError_t e = cudaGetDeviceCount(&count);
    if (e == cudaErrorInsufficientDriver)
        return cannot(sentence, capacity, "there is no NVIDIA driver here, or one older than CUDA %d%s",
                      CUDART_VERSION / 1000, " needs");
    if (e == cudaErrorNoDevice || (e == cudaSuccess && !count))
        return cannot(sentence, capacity, "there is no NVIDIA GPU here: %d were found%s", 0, "");
    if (e != cudaSuccess)
        return cannot(sentence, capacity, "device %d cannot be opened: %s", ordinal, cudaGetErrorString(e));
    if (ordinal < 0 || ordinal >= count)
        return cannot(sentence, capacity, "there is no device %d%s", ordinal, ": they are counted from 0");
    lnt_cuda_device *device = new (std::nothrow) lnt_cuda_device();
    if (!device) return cannot(sentence, capacity, "no memory for device %d%s", ordinal, "");
    device->ordinal = ordinal;
    cudaError_t asked = cudaGetDeviceProperties(&device->properties, ordinal);
    const bool old = asked == cudaSuccess && device->properties.major < 8;
    const chosen now(ordinal);
    if (asked == cudaSuccess) asked = now.error;
    if (asked == cudaSuccess && !old) {
        const cudaDeviceProp &has = device->properties;
        device->limits = { has.multiProcessorCount, has.sharedMemPerBlockOptin, warpgroups_are_compiled() };
        *out = device;
        return LNT_OK;
    }
    delete device;
    if (old)
        return cannot(sentence, capacity, "device %d is older than compute capability 8.0%s", ordinal, "");
    return cannot(sentence, capacity, "device %d cannot be used: %s", ordinal, cudaGetErrorString(asked));
}

static void close_device(lnt_cuda_device *device) { delete device; }

static const char *error(const lnt_cuda_device *device) { return device->sentence.c_str(); }

static lnt_status describe(lnt_cuda_device *device, lnt_cuda_info *info)
{
    const cudaDeviceProp &p = device->properties;
    snprintf(info->name, sizeof info->name, "%s", p.name);
    info->major = p.major, info->minor = p.minor, info->multiprocessors = p.multiProcessorCount;
    info->memory_bytes = p.totalGlobalMem, info->l2_bytes = (size_t)p.l2CacheSize;
    lnt_status s = check(device, cudaDriverGetVersion(&info->driver), "asking for the driver");
    if (!s) s = check(device, cudaRuntimeGetVersion(&info->runtime), "asking for the runtime");
    return s;
}

/* ---- memory ---------------------------------------------------------------------------------- */

static lnt_status allocate(lnt_cuda_device *device, size_t bytes, void **out)
{
    *out = NULL;
    const cudaError_t e = cudaMalloc(out, bytes ? bytes : 1);
    if (e == cudaErrorMemoryAllocation) cudaGetLastError();
    return check(device, e, "allocating");
}

static void release(lnt_cuda_device *device, void *memory)
{
    (void)device;
    cudaFree(memory);
}

static lnt_status copy(lnt_cuda_device *device, void *to, const void *from, size_t bytes, void *stream,
                       cudaMemcpyKind kind)
{
    cudaError_t e = cudaMemcpyAsync(to, from, bytes, kind, (cudaStream_t)stream);
    if (e == cudaSuccess) e = cudaStreamSynchronize((cudaStream_t)stream);
    return check(device, e, "copying");
}

static lnt_status copy_in(lnt_cuda_device *device, void *to, const void *from, size_t bytes, void *stream)
{
    return copy(device, to, from, bytes, stream, cudaMemcpyHostToDevice);
}

static lnt_status copy_out(lnt_cuda_device *device, void *to, const void *from, size_t bytes, void *stream)
{
    return copy(device, to, from, bytes, stream, cudaMemcpyDeviceToHost);
}

static lnt_status copy_within(lnt_cuda_device *device, void *to, const void *from, size_t bytes, void *stream)
{
    return check(device, cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, (cudaStream_t)stream),
                 "copying");
}

static lnt_status clear(lnt_cuda_device *device, void *memory, size_t bytes, void *stream)
{
    return check(device, cudaMemsetAsync(memory, 0, bytes, (cudaStream_t)stream), "clearing");
}

static lnt_status synchronize(lnt_cuda_device *device, void *stream)
{
    return check(device, cudaStreamSynchronize((cudaStream_t)stream), "waiting");
}

} // namespace lnt

#define ON_DEVICE(function) lnt::on_device<lnt::function>::call

static const lnt_cuda_api table = {
    LNT_CUDA_ABI,
    lnt_cuda_structs,
    lnt::open_device,
    lnt::close_device,
    lnt::error,
    lnt::describe,
    ON_DEVICE(measure_flops),
    ON_DEVICE(measure_bandwidth),
    ON_DEVICE(allocate),
    ON_DEVICE(release),
    ON_DEVICE(copy_in),
    ON_DEVICE(copy_out),
    ON_DEVICE(clear),
    ON_DEVICE(synchronize),
    ON_DEVICE(plan_create),
    ON_DEVICE(plan_destroy),
    lnt::plan_describe,
    ON_DEVICE(plan_forward),
    ON_DEVICE(plan_backward),
    ON_DEVICE(plan_step),
    ON_DEVICE(state_reset),
    ON_DEVICE(state_fork),
    ON_DEVICE(plan_nonpositive),
    ON_DEVICE(copy_within),
    ON_DEVICE(plan_set_temperature),
};

const lnt_cuda_api *lnt_cuda_plugin(int abi) { return abi == LNT_CUDA_ABI ? &table : NULL; }
