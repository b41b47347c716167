"""A baseline on inputs that are shifted and scaled first: what VFF's and VISH's scripts share."""


def fit(model, x, y, shift, scale):
    fitted = model.fit((x - shift) / scale, y)
    info = {
        "bound": float(fitted.bound),
        "noise": float(fitted.noise_variance),
        "iterations": fitted.iterations,
        "converged": fitted.converged,
    }
    return {"model": fitted, "shift": shift, "scale": scale, "info": info}


def predict(fitted, x):
    model = fitted["model"]
    mean, variance = model.predict((x - fitted["shift"]) / fitted["scale"])
    return mean, (variance + model.noise_variance) ** 0.5
