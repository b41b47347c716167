# pyright: reportMissingImports=false
"""GPyTorch: KISS-GP, a Matern-3/2 interpolated from a grid.

As its example "KISS-GP for 2D-4D data" (docs.gpytorch.ai): a grid of about as many points as
there are data (``choose_grid_size``), Adam at 0.1, predictions under ``fast_pred_var``. Inputs
are scaled to [0, 1].

Settings: "iterations" (default 30), "ratio" (grid points to data, default 1).
"""

import child
import gpytorch
import torch


class Model(gpytorch.models.ExactGP):
    def __init__(self, x, y, likelihood, ratio):
        super().__init__(x, y, likelihood)
        dim = x.shape[1]
        size = gpytorch.utils.grid.choose_grid_size(x, ratio)
        base = gpytorch.kernels.MaternKernel(nu=1.5, ard_num_dims=dim)
        base.lengthscale = 0.1
        grid = gpytorch.kernels.GridInterpolationKernel(base, grid_size=size, num_dims=dim)
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(grid)
        self.size = size

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


def fit(x, y, settings):
    torch.manual_seed(0)
    low, high = x.min(0), x.max(0)
    x, y = torch.tensor((x - low) / (high - low)), torch.tensor(y)
    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    model = Model(x, y, likelihood, settings.get("ratio", 1.0)).double()
    evidence = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    adam = torch.optim.Adam(model.parameters(), lr=0.1)
    model.train()
    for _ in range(settings.get("iterations", 30)):
        adam.zero_grad()
        loss = -evidence(model(x), y)
        loss.backward()
        adam.step()
    info = {"grid_size": model.size, "noise": likelihood.noise.item()}
    return {"model": model, "likelihood": likelihood, "low": low, "high": high, "info": info}


def predict(model, x):
    x = torch.tensor((x - model["low"]) / (model["high"] - model["low"])).clamp(0.0, 1.0)
    model["model"].eval()
    with torch.no_grad(), gpytorch.settings.fast_pred_var():
        found = [model["likelihood"](model["model"](part)) for part in x.split(2000)]
        mean = torch.cat([part.mean for part in found])
        return mean.numpy(), torch.cat([part.variance for part in found]).sqrt().numpy()


if __name__ == "__main__":
    child.main(fit, predict, versions=["gpytorch", "torch"])
